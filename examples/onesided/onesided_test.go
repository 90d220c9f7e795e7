package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/internal/testenv"
)

// mainEnv makes the test binary be the program.
const mainEnv = "CIDDK_ONESIDED_MAIN"

// Addresses that no other test uses: there is one program per address and UDP port 4791.
const (
	serverIP = "127.18.52.1"
	callerIP = "127.18.52.2"
)

func TestMain(m *testing.M) {
	if os.Getenv(mainEnv) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

func flags(t *testing.T) []string {
	t.Helper()
	l, err := net.Listen("tcp", serverIP+":0")
	require.NoError(t, err)
	defer l.Close()
	return []string{"--server", serverIP, "--caller", callerIP, "--port", strconv.Itoa(l.Addr().(*net.TCPAddr).Port)}
}

// TestTwoProcesses runs the program as a reader would.
func TestTwoProcesses(t *testing.T) {
	testenv.Addresses(t, testenv.RoCEv2Port, serverIP, callerIP)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	f := flags(t)
	process := func(role string) *exec.Cmd {
		c := exec.CommandContext(ctx, os.Args[0], append([]string{role}, f...)...)
		c.Env = append(os.Environ(), mainEnv+"=1")
		return c
	}
	server := process("serve")
	var serr bytes.Buffer
	server.Stderr = &serr
	sout, err := server.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	r := bufio.NewReader(sout)
	line, err := r.ReadString('\n')
	if err != nil {
		require.NoError(t, server.Wait(), &serr)
	}
	require.Contains(t, line, "waiting for a caller")

	out, err := process("call").CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, "read back: written from afar\n", string(out))

	rest, err := io.ReadAll(r)
	require.NoError(t, err)
	require.NoError(t, server.Wait(), serr.String())
	require.Equal(t, "received: hello over RDMA\nreceived: look at your memory\nin my memory: written from afar\n", string(rest))
	require.Empty(t, serr.String())
}

func TestFailures(t *testing.T) {
	testenv.Addresses(t, testenv.RoCEv2Port, serverIP, callerIP)
	f := flags(t)
	require.ErrorContains(t, command(t.Context(), append([]string{"call"}, f...), io.Discard), "is the server running?")
	require.ErrorIs(t, command(t.Context(), append([]string{"serve", "--timeout", "50ms"}, f...), io.Discard), context.DeadlineExceeded)
	require.ErrorContains(t, command(t.Context(), []string{"listen"}, io.Discard), "must be one of")
	require.ErrorContains(t, command(t.Context(), []string{"serve", "--server", "192.0.2.1"}, io.Discard), "192.0.2.1")
}

func TestHear(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"nothing", "", "EOF"},
		{"cut", `{"QPN":5`, "EOF"},
		{"not JSON", "GET / HTTP/1.1\n", "invalid character"},
		{"no line", string(bytes.Repeat([]byte{' '}, 2000)), "no line of JSON"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := hear(bytes.NewBufferString(tt.in))
			require.ErrorContains(t, err, tt.want)
		})
	}
	p, err := hear(bytes.NewBufferString(`{"QPN":5,"Mem":{"Addr":4096,"RKey":7}}` + "\nrest"))
	require.NoError(t, err)
	require.EqualValues(t, 5, p.QPN)
	require.EqualValues(t, 4096, p.Mem.Addr)
}
