package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/accesslayer/rdmacm"
	"ciddk/internal/testenv"
	"ciddk/rdmatest"
)

// mainEnv is the environment variable that makes the test binary the program.
const mainEnv = "CIDDK_ONESIDED_MAIN"

// Addresses that no other test uses: there is one program per address and UDP port 4791.
const (
	serverIP = "127.18.52.1"
	callerIP = "127.18.52.2"
)

var addresses = []string{"--server", serverIP, "--caller", callerIP}

func TestMain(m *testing.M) {
	if os.Getenv(mainEnv) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// TestTwoProcesses runs the program as a reader would.
func TestTwoProcesses(t *testing.T) {
	testenv.Addresses(t, testenv.RoCEv2Port, serverIP, callerIP)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	process := func(role string) *exec.Cmd {
		c := exec.CommandContext(ctx, os.Args[0], append([]string{role}, addresses...)...)
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
	require.Equal(t, "read back: written by the caller\n", string(out))

	rest, err := io.ReadAll(r)
	require.NoError(t, err)
	require.NoError(t, server.Wait(), serr.String())
	require.Equal(t, "received: look at your memory\nin my memory: written by the caller\n", string(rest))
	require.Empty(t, serr.String())
}

// TestFailures checks wrong options, a missing server and a missing caller.
func TestFailures(t *testing.T) {
	testenv.Addresses(t, testenv.RoCEv2Port, serverIP, callerIP)
	fail := func(role string, args ...string) error {
		return command(t.Context(), append(append([]string{role}, addresses...), args...), io.Discard)
	}
	require.ErrorIs(t, fail("serve", "--timeout", "50ms"), context.DeadlineExceeded)
	require.ErrorContains(t, fail("listen"), "must be one of")
	require.ErrorContains(t, fail("serve", "--server", "192.0.2.1"), "192.0.2.1")
}

// TestNoServer dials a host on which no server listens.
func TestNoServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := rdmatest.New(t, rdmatest.Config{}, "server", "caller")
		err := call(t.Context(), n.Host("caller").Manager, n.Host("server").AddrPort(18516), io.Discard)
		require.ErrorContains(t, err, "is the server running?")
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
	})
}

// TestLostServer kills the server's host while the server waits for the caller's message.
func TestLostServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := rdmatest.New(t, rdmatest.Config{}, "server", "caller")
		at := n.Host("server").AddrPort(18516)
		served := make(chan error, 1)
		go func() { served <- serve(t.Context(), n.Host("server").Manager, at, io.Discard) }()
		synctest.Wait()
		_, err := n.Host("caller").Dial(t.Context(), at)
		require.NoError(t, err)
		time.Sleep(time.Second)
		n.Kill("server")
		require.ErrorIs(t, <-served, rdmacm.ErrEnded)
	})
}
