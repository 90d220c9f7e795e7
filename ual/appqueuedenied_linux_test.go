package ual_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/clock"
	"ciddk/hca/reference"
	"ciddk/kproxy"
	"ciddk/kproxy/native"
	"ciddk/kproxy/native/server"
	"ciddk/link/sim"
	"ciddk/rvt"
)

// hideEnv makes the library of a client process name queues that it does not expose.
const hideEnv = "UAL_TEST_HIDE"

// daemonOfQueues is a daemon whose driver has its queues in memory of the applications. Everybody may register memory.
// It ends with its input.
func daemonOfQueues(path string) error {
	port, err := sim.New(sim.NewNetwork(sim.NetworkConfig{}), sim.Config{Addr: netip.MustParseAddr("10.0.0.1")})
	if err != nil {
		return err
	}
	h, err := reference.New(reference.Config{Ports: []rvt.Port{port}})
	if err != nil {
		return err
	}
	al := accesslayer.New(accesslayer.Config{PollInterval: -1})
	if err := al.Register(&appHCA{h}); err != nil {
		return err
	}
	core, err := kproxy.New(kproxy.Config{AL: al, CanCopy: func(kproxy.Peer) bool { return true },
		CopyTimeout: patience, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	l, err := native.Listen(path)
	if err != nil {
		return err
	}
	if err := os.Chmod(path, 0o666); err != nil {
		return err
	}
	go func() { _ = server.New(core, clock.Real()).Serve(l) }()
	fmt.Println("ready")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// TestQueuesOfOtherUser has a library that allocates its queues, in a process whose memory the system does not let the
// daemon reach, because the daemon runs as another user. The driver reaches queues that the library has exposed, by
// copies of the process. It does not reach others.
func TestQueuesOfOtherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("processes of several users take root")
	}
	const daemonUser, programUser = 65534, 65533
	dir, err := os.MkdirTemp("", "ual") // t.TempDir can be too long for a socket
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	require.NoError(t, os.Chown(dir, daemonUser, daemonUser))
	path := filepath.Join(dir, "socket")
	as := func(uid uint32) *syscall.SysProcAttr {
		return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
	d := role("queues", path)
	d.SysProcAttr = as(daemonUser)
	in, err := d.StdinPipe()
	require.NoError(t, err)
	out, err := d.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, d.Start())
	t.Cleanup(func() { _ = d.Process.Kill() }) // it has ended, unless the test fails
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", line)

	for name, hides := range map[string]bool{"exposed": false, "hidden": true} {
		t.Run(name, func(t *testing.T) {
			c := role("writes", path) // its input is empty, so that it ends after 100 rounds
			c.SysProcAttr = as(programUser)
			if hides {
				c.Env = append(c.Env, hideEnv+"=1")
			}
			text, err := c.Output()
			require.NoError(t, err, "%s", text)
			if !hides {
				assert.Equal(t, "ready\n<nil>\n", string(text))
				return
			}
			assert.Equal(t, 1, strings.Count(string(text), "\n"), "no round: %s", text)
			assert.Contains(t, string(text), "the client did not copy its memory for the daemon")
		})
	}
	require.NoError(t, in.Close())
	require.NoError(t, d.Wait())
}
