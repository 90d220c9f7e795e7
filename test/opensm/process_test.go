package opensm

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/fabric/join"
	"ciddk/internal/linktest"
	"ciddk/internal/testenv"
)

// socketVariable is the environment variable with the socket of the fabric, for TestProcess.
const socketVariable = "CIDDK_OPENSM_SOCKET"

// TestProcess is the other process of TestProcesses: it joins at h7, and connects with the node that it is told.
func TestProcess(t *testing.T) {
	path := os.Getenv(socketVariable)
	if path == "" {
		t.Skip("TestProcesses runs this test in another process")
	}
	p, err := join.Dial(t.Context(), path, "h7", 0)
	require.NoError(t, err)
	linktest.ServeRemote(t, linktest.Open(t, ci.RC, 1<<19, p), os.Stdin, os.Stdout)
}

// Adapters of two processes are connected over routes that OpenSM set. When one process is killed, OpenSM gets the trap
// of the switch and sweeps; the process that joins next gets the LID of the port and traffic again.
func TestProcesses(t *testing.T) {
	r, m := managed(t)
	path := filepath.Join(t.TempDir(), "join.sock")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	s := join.Serve(r.fabric, l, join.Config{})
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	h7, err := r.fabric.Port("h7", 0)
	require.NoError(t, err)
	lid := r.lid("h7")
	for range 2 {
		other := linktest.StartRemote(t, socketVariable+"="+path, "TestProcess")
		r.wait("an active port", func() bool { return h7.State() == ci.PortActive && r.lid("h7") == lid })
		p, err := join.Dial(t.Context(), path, "h2", 0)
		require.NoError(t, err)
		require.Eventually(t, func() bool { return p.Attr().State == ci.PortActive },
			testenv.Patience, time.Millisecond)
		n := linktest.Open(t, ci.RC, 1<<19, p)
		info := other.Remote()
		info.LID = ci.LID(lid) // the process may have started before it was assigned
		n.Connect(info.Node())
		other.Tell(t, n.Remote())
		other.Exercise(t, n)
		path, err := r.fabric.Trace("h2", ci.LID(lid))
		require.NoError(t, err)
		assert.Equal(t, "h7", path[len(path)-1].Node())
		sweeps := m.sweeps()
		other.Kill()
		r.wait("the port is down", func() bool { return h7.State() == ci.PortDown })
		r.wait("a sweep", func() bool { return m.sweeps() > sweeps })
		require.NoError(t, p.Close())
		r.wait("h2 is down", func() bool { return s.Sessions() == 0 })
	}
}
