package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/examples/lnd/lnd"
)

// mainEnv makes the test binary be the program.
const mainEnv = "CIDDK_LND_MAIN"

// Addresses that no other test uses: there is one program per address and UDP port 4791.
const (
	serverIP = "127.19.80.1"
	callerIP = "127.19.80.2"
)

func TestMain(m *testing.M) {
	if os.Getenv(mainEnv) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// needAddresses skips where only 127.0.0.1 is a loopback address, as on macOS.
func needAddresses(t *testing.T) {
	t.Helper()
	for _, a := range []string{serverIP, callerIP} {
		c, err := net.ListenPacket("udp", net.JoinHostPort(a, "4791"))
		if err != nil {
			t.Skip(err)
		}
		require.NoError(t, c.Close())
	}
}

// TestProgram runs the program as a reader would: a server, and others that come and go.
func TestProgram(t *testing.T) {
	needAddresses(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server := exec.CommandContext(ctx, os.Args[0], "serve", "--addr", serverIP, "--room", "8")
	server.Env = append(os.Environ(), mainEnv+"=1")
	var serr bytes.Buffer
	server.Stderr = &serr
	sout, err := server.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	line, err := bufio.NewReader(sout).ReadString('\n')
	require.NoError(t, err, &serr)
	require.Equal(t, "serving as "+serverIP+"@o2ib\n", line)

	run := func(in io.Reader, args ...string) (string, error) {
		var out bytes.Buffer
		err := command(ctx, append(args, "--addr", callerIP), in, &out)
		return out.String(), err
	}
	out, err := run(nil, "ping", serverIP, "--count", "2")
	require.NoError(t, err)
	require.Regexp(t, `^(\[127\.19\.80\.1@o2ib\] in .*\n){2}$`, out)
	for _, size := range []int{0, 100, 1 << 20, 3<<20 + 12345} {
		data := make([]byte, size)
		r := rand.NewChaCha8([32]byte{byte(size)})
		_, _ = r.Read(data)
		file := filepath.Join(t.TempDir(), "data")
		require.NoError(t, os.WriteFile(file, data, 0o600))
		if size%2 == 0 {
			out, err = run(nil, "put", serverIP, "5", file)
		} else {
			out, err = run(bytes.NewReader(data), "put", serverIP, "5")
		}
		require.NoError(t, err)
		require.Contains(t, out, " bytes in ")
		out, err = run(nil, "get", serverIP, "5")
		require.NoError(t, err)
		require.True(t, bytes.Equal(data, []byte(out)), "%d bytes", size)
	}
	_, err = run(nil, "get", serverIP, "6")
	require.ErrorIs(t, err, lnd.ErrRefused)
	_, err = run(bytes.NewReader(make([]byte, 9<<20)), "put", serverIP, "7")
	require.ErrorIs(t, err, lnd.ErrRefused, "there is room for 8 MiB")

	require.NoError(t, server.Process.Signal(os.Interrupt))
	require.NoError(t, server.Wait(), &serr)
	require.Empty(t, serr.String())
}

func TestFailures(t *testing.T) {
	needAddresses(t)
	tests := []struct {
		args []string
		says string
	}{
		{[]string{}, "expected one of"},
		{[]string{"put", "here", "5"}, "here"},
		{[]string{"get", serverIP, "5", "--addr", "192.0.2.1"}, "192.0.2.1"},
		{[]string{"get", serverIP, "5", "--addr", "::1"}, "IPv4"},
		{[]string{"get", serverIP, "5", "--addr", callerIP, "--depth", "1"}, "Depth is 1"},
		{[]string{"get", callerIP, "5", "--addr", serverIP, "--timeout", "1s"}, "deadline exceeded"},
		{[]string{"put", serverIP, "5", "no such file", "--addr", callerIP}, "no such file"},
	}
	for _, tt := range tests {
		require.ErrorContains(t, command(t.Context(), tt.args, nil, io.Discard), tt.says, "%q", tt.args)
	}
}

// Numbers that make no sense are refused before anything is opened.
func TestOptions(t *testing.T) {
	for want, args := range map[string][]string{
		"--timeout 0s: must be positive":  {"ping", "127.0.0.1", "--timeout=0s"},
		"-c 0: must be positive":          {"ping", "127.0.0.1", "-c", "0"},
		"--room -1: must not be negative": {"serve", "--room=-1"},
	} {
		require.ErrorContains(t, command(t.Context(), args, nil, io.Discard), want)
	}
}

func TestParsePing(t *testing.T) {
	p := pingInfo{NIDs: []lnd.NID{0x500000a000001, 0x500000a000002}}
	b := p.append(nil)
	got, err := parsePing(append(b, 1, 2, 3))
	require.NoError(t, err)
	require.Equal(t, p, got)
	got, err = parsePing([]byte{0x70, 0x69, 0x6e, 0x67, 0, 0, 0, 3, 0, 0, 0x30, 0x39, 0, 0, 0, 1, 0, 5, 0, 0, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0})
	require.NoError(t, err, "from a big-endian machine")
	require.Equal(t, p.NIDs[:1], got.NIDs)
	for _, bad := range [][]byte{nil, b[:15], b[:len(b)-1], make([]byte, 64)} {
		_, err = parsePing(bad)
		require.Error(t, err)
	}
}

// Objects: replaced from their beginning, continued at their end, within the room there is.
func TestObjects(t *testing.T) {
	o := newObjects(1, 10)
	write := func(offset uint32, s string) error {
		b, err := o.put(t.Context(), lnd.Request{At: lnd.Address{Portal: portal, Match: 1, Offset: offset}, Length: len(s)})
		if err == nil {
			b.Done(copy(b.Data, s), nil)
		}
		return err
	}
	read := func(offset uint32, n int) string {
		b, err := o.get(t.Context(), lnd.Request{At: lnd.Address{Portal: portal, Match: 1, Offset: offset}, Length: n})
		require.NoError(t, err)
		return string(b.Data)
	}
	require.NoError(t, write(0, "12345"))
	require.NoError(t, write(5, "678"))
	require.Equal(t, "12345678", read(0, 100))
	require.Equal(t, "456", read(3, 3))
	require.Empty(t, read(8, 100))
	require.ErrorIs(t, write(9, "x"), lnd.ErrRefused, "a gap")
	require.ErrorIs(t, write(8, "xyz"), lnd.ErrRefused, "no room")
	require.NoError(t, write(0, "ab"))
	require.Equal(t, "ab", read(0, 100))
	require.Equal(t, 8, o.room)
	b, err := o.put(t.Context(), lnd.Request{At: lnd.Address{Portal: portal, Match: 1, Offset: 2}, Length: 8})
	require.NoError(t, err)
	require.Zero(t, o.room)
	b.Done(0, lnd.ErrTimeout)
	require.Equal(t, 8, o.room)
	for _, at := range []lnd.Address{{Portal: 1, Match: 1}, {Portal: portal, Match: 1, Offset: 3}, {Portal: portal, Match: 2}} {
		_, err := o.get(t.Context(), lnd.Request{At: at, Length: 1})
		require.ErrorIs(t, err, lnd.ErrRefused)
	}
	_, err = o.put(t.Context(), lnd.Request{At: lnd.Address{Portal: 1}})
	require.ErrorIs(t, err, lnd.ErrRefused)
}

func FuzzParsePing(f *testing.F) {
	f.Add(pingInfo{NIDs: []lnd.NID{1, 2}}.append(nil))
	f.Add([]byte("ping\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := parsePing(b)
		if err != nil {
			return
		}
		again, err := parsePing(p.append(nil))
		require.NoError(t, err)
		require.Equal(t, p, again)
	})
}
