package verbs

import (
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/fabric"
	"ciddk/fabric/join"
	"ciddk/fabric/topology"
	"ciddk/internal/seccomp"
	"ciddk/internal/testenv"
	"ciddk/kproxy"
)

// newFabric serves a fabric with the adapters h1 and h2 and a switch, and returns the path of its socket.
func newFabric(t *testing.T) string {
	topo, err := topology.FatTree{Down: []int{2}, Up: []int{1}}.Generate()
	require.NoError(t, err)
	f, err := fabric.New(topo, fabric.Config{})
	require.NoError(t, err)
	t.Cleanup(f.Close)
	socket := filepath.Join(t.TempDir(), "fabric")
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	s := join.Serve(f, l, join.Config{})
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return socket
}

// diags are commands of infiniband-diags with what their output matches.
var diags = []struct {
	args []string
	want string
}{
	{[]string{"ibstat"}, `State: Active(?s:.*)Link layer: InfiniBand`},
	{[]string{"ibaddr"}, `GID fe80::\S+ LID start 0x1 `},
	{[]string{"sminfo"}, `sm lid 1 .* SMINFO_MASTER`},
	{[]string{"smpquery", "nodeinfo", "-D", "0"}, `NodeType:\.+Channel Adapter`},
	{[]string{"smpquery", "nodedesc", "-D", "0,1"}, `Node Description:\.+s`},
	{[]string{"perfquery"}, `PortRcvPkts:\.+[1-9]`},
	{[]string{"perfquery", "-x", "1", "1"}, `PortUnicastRcvPkts:\.+[1-9]`},
	{[]string{"ibnetdiscover"}, `(?s)"h1".*"h2"|"h2".*"h1"`},
	{[]string{"iblinkinfo"}, `Active/ +LinkUp`},
	{[]string{"saquery", "-N"}, `(?s)NodeRecord dump.*NodeRecord dump.*NodeRecord dump`}, // several datagrams: RMPP
	{[]string{"saquery", "-p"}, `PathRecord dump`},
}

// TestManagement runs OpenSM on the port of one daemon, and infiniband-diags on its port and on that of another daemon,
// where a program that watches asynchronous events sees the port become active.
func TestManagement(t *testing.T) {
	testenv.Long(t)
	settings := "link=fabric,fabric=" + newFabric(t) + ",node="
	r, other := newRigOf(t, settings+"h1"), newRigOf(t, settings+"h2")
	watcher, events := other.command("stdbuf", "-oL", "ibv_asyncwatch")
	active := newWatch(events, "IBV_EVENT_PORT_ACTIVE (9), port 1")
	watcher.Stdout = active
	require.NoError(t, watcher.Start())
	defer func() { _ = watcher.Wait() }() // it was killed
	defer func() { _ = watcher.Process.Kill() }()
	isWatched := func() bool { return len(other.status().Clients) > 1 }
	require.Eventually(t, isWatched, patience, 5*time.Millisecond)
	log := filepath.Join(t.TempDir(), "log")
	manager, out := r.command("opensm", "-f", log)
	require.NoError(t, manager.Start())
	defer func() { _ = manager.Wait() }() // it was killed
	defer func() { _ = manager.Process.Kill() }()
	isActive := regexp.MustCompile(`State: Active`)
	for _, n := range []*rig{r, other} {
		require.Eventually(t, func() bool { return isActive.MatchString(n.run("ibstat")) }, patience,
			100*time.Millisecond, "%s", out)
	}
	select {
	case <-active.seen:
	case <-time.After(patience):
		t.Fatal("ibv_asyncwatch does not see that the port becomes active")
	}
	carriers := []string{"preload"}
	if seccomp.Check() == nil {
		carriers = append(carriers, "seccomp")
	}
	for _, carrier := range carriers {
		for _, d := range diags {
			args := append([]string{"--carrier", carrier}, d.args...)
			assert.Regexp(t, d.want, r.run(args...), args)
		}
	}
	assert.Regexp(t, `sm lid 1 .* SMINFO_MASTER`, other.run("sminfo"))
	assert.Regexp(t, `Port counters: Lid 1 port 1`, other.run("perfquery", "1", "1"))
	responder, _ := other.command("ibping", "-S")
	require.NoError(t, responder.Start())
	defer func() { _ = responder.Wait() }() // it was killed
	defer func() { _ = responder.Process.Kill() }()
	require.Eventually(t, func() bool {
		isServer := func(c kproxy.ClientStatus) bool { return len(c.Services) > 0 }
		return slices.ContainsFunc(other.status().Clients, isServer)
	}, patience, 50*time.Millisecond)
	lid := regexp.MustCompile(`Base lid: (\d+)`).FindStringSubmatch(other.run("ibstat"))
	require.Len(t, lid, 2)
	assert.Contains(t, r.run("ibping", "-c", "3", lid[1]), " 3 received, 0% packet loss")
}
