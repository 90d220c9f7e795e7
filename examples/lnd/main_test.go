package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/internal/testenv"
	"ciddk/lnd"
)

// mainEnv is the environment variable that makes the test binary the program.
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

// TestProgram runs a server process and several client processes.
func TestProgram(t *testing.T) {
	testenv.Addresses(t, testenv.RoCEv2Port, serverIP, callerIP)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server := exec.CommandContext(ctx, os.Args[0], "serve", "--addr", serverIP)
	server.Env = append(os.Environ(), mainEnv+"=1")
	var serr bytes.Buffer
	server.Stderr = &serr
	sout, err := server.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	line, err := bufio.NewReader(sout).ReadString('\n')
	require.NoError(t, err, &serr)
	require.Equal(t, "serving at "+serverIP+"\n", line)

	run := func(args ...string) (string, error) {
		var out bytes.Buffer
		err := command(ctx, append(args, "--addr", callerIP), &out)
		return out.String(), err
	}
	out, err := run("ping", serverIP)
	require.NoError(t, err)
	require.Regexp(t, `127.19.80.1@o2ib .* answers in .*\n$`, out)
	file := filepath.Join(t.TempDir(), "data")
	for _, size := range []int{100, 1<<20 - 1, 1 << 20} {
		data := make([]byte, size)
		r := rand.NewChaCha8([32]byte{byte(size)})
		_, _ = r.Read(data)
		require.NoError(t, os.WriteFile(file, data, 0o600))
		out, err = run("put", serverIP, "5", file)
		require.NoError(t, err)
		require.Contains(t, out, " bytes in ")
		out, err = run("get", serverIP, "5")
		require.NoError(t, err)
		require.True(t, bytes.Equal(data, []byte(out)), "%d bytes", size)
	}
	_, err = run("get", serverIP, "6")
	require.ErrorIs(t, err, lnd.ErrRefused)
	require.NoError(t, os.WriteFile(file, make([]byte, 1<<20+1), 0o600))
	_, err = run("put", serverIP, "5", file)
	require.ErrorContains(t, err, "more than the 1048576 bytes of a transfer")

	require.NoError(t, server.Process.Signal(os.Interrupt))
	require.NoError(t, server.Wait(), &serr)
	require.Empty(t, serr.String())
}

func TestFailures(t *testing.T) {
	testenv.Addresses(t, testenv.RoCEv2Port, serverIP, callerIP)
	tests := []struct {
		args []string
		want string
	}{
		{[]string{}, "expected"},
		{[]string{"play"}, "must be one of"},
		{[]string{"put", "here", "5"}, "here"},
		{[]string{"get", serverIP, "256"}, "256"},
		{[]string{"get", serverIP, "5", "--addr", "192.0.2.1"}, "192.0.2.1"},
		{[]string{"get", serverIP, "5", "--addr", "::1"}, "IPv4"},
		{[]string{"get", "--addr", callerIP}, "get: give the address of a server"},
		{[]string{"put", serverIP, "5"}, "put: give a file"},
		{[]string{"get", "::1", "--addr", callerIP}, "IPv4"},
		{[]string{"get", callerIP, "5", "--addr", serverIP, "--timeout", "1s"}, noServer},
		{[]string{"ping", callerIP, "--addr", callerIP, "--timeout=-1s"}, "deadline exceeded"},
		{[]string{"put", callerIP, "5", "no such file", "--addr", callerIP}, "no such file"},
	}
	for _, tt := range tests {
		require.ErrorContains(t, command(t.Context(), tt.args, io.Discard), tt.want, "%q", tt.args)
	}
}

// noServer returns the error of a dial to an address at which no process receives RDMA packets. Linux reports it at
// once.
var noServer = func() string {
	if runtime.GOOS == "linux" {
		return "connection refused"
	}
	return "deadline exceeded"
}()

// TestObjects checks that an object is replaced when all bytes of the new one have arrived.
func TestObjects(t *testing.T) {
	var o objects
	r := lnd.Request{Len: 5}
	read := func() string { return string(o.get(r)) }
	b, done := o.put(r)
	copy(b, "hello")
	require.Empty(t, read())
	done(5, nil)
	require.Equal(t, "hello", read())
	_, done = o.put(r)
	done(0, lnd.ErrTimeout)
	require.Equal(t, "hello", read())
}
