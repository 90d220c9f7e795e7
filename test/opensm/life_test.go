package opensm

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/fabric"
	"ciddk/fabric/topology"
	"ciddk/internal/linktest"
)

// adapter opens an adapter at a node.
func (r *rig) adapter(name string, typ ci.QPType) *linktest.Node {
	r.t.Helper()
	p, err := r.fabric.CAPort(name, 0)
	require.NoError(r.t, err)
	return linktest.Open(r.t, typ, 1<<19, p)
}

// Reliable connections run over the routes that OpenSM set, before and after one of them is cut.
func TestTraffic(t *testing.T) {
	r, m := managed(t)
	a, b := r.adapter("h5", ci.RC), r.adapter("h2", ci.RC)
	linktest.ConnectBoth(a, b)
	linktest.Exercise(t, a, b)
	path, err := r.fabric.Trace("h5", b.Attr.LID)
	require.NoError(t, err)
	require.Len(t, path, 8)
	assert.GreaterOrEqual(t, r.portStatus(path[2].Node(), int(path[2].Num())).Sent, uint64(600_000/4096))
	// The leaf's port to the spine is cut. OpenSM sweeps after trap 128, and routes over the other spine.
	require.NoError(t, path[2].SetLink(false))
	r.wait("another route", func() bool {
		p, err := r.fabric.Trace("h5", b.Attr.LID)
		back, err2 := r.fabric.Trace("h2", a.Attr.LID)
		return err == nil && err2 == nil && p[3].Node() != path[3].Node() && len(p) == 8 && len(back) == 8
	})
	linktest.Exercise(t, a, b)
	require.NoError(t, path[2].SetLink(true))
	r.wait("the link is active again", func() bool { return path[2].State() == ci.PortActive })
	m.waitUp(2)
}

// Switches and adapters leave and join while OpenSM runs, and the subnet heals.
func TestHeal(t *testing.T) {
	r, _ := managed(t)
	spine := r.topo.Nodes[r.topo.Find("s2-1")]
	var cables []fabric.Cable
	for _, l := range r.topo.Links {
		for _, e := range [2][2]topology.End{{l.A, l.B}, {l.B, l.A}} {
			if r.topo.Nodes[e[0].Node].ID == "s2-1" {
				cables = append(cables, fabric.Cable{Port: e[0].Port, Peer: r.topo.Nodes[e[1].Node].ID,
					PeerPort: e[1].Port})
			}
		}
	}
	require.NoError(t, r.fabric.RemoveNode("s2-1"))
	r.wait("routes without the switch", func() bool {
		for _, from := range []string{"h1", "h2", "h3", "h4"} {
			for _, to := range []string{"h5", "h6", "h7", "h8"} {
				if _, err := r.fabric.Trace(from, ci.LID(r.lid(to))); err != nil {
					return false
				}
			}
		}
		return true
	})
	require.NoError(t, r.fabric.AddNode(spine, cables...))
	r.wait("the switch is back", func() bool {
		p, err := r.fabric.Port("s2-1", 2)
		return err == nil && p.State() == ci.PortActive && r.lid("s2-1") != 0
	})
	host := topology.Node{Kind: topology.CA, ID: "h9", NumPorts: 1, GUID: 0x9000}
	extra := topology.Node{Kind: topology.Switch, ID: "s9", NumPorts: 4, GUID: 0x9900}
	require.NoError(t, r.fabric.RemoveNode("h8"))
	require.NoError(t, r.fabric.AddNode(extra, fabric.Cable{Port: 1, Peer: "s1-2", PeerPort: 4}))
	require.NoError(t, r.fabric.AddNode(host, fabric.Cable{Port: 1, Peer: "s9", PeerPort: 2}))
	r.wait("a new adapter behind a new switch", func() bool {
		p, err := r.fabric.Port("h9", 1)
		if err != nil || p.State() != ci.PortActive {
			return false
		}
		_, err = r.fabric.Trace("h1", ci.LID(r.lid("h9")))
		return err == nil
	})
	require.NoError(t, err1(r.fabric.Trace("h9", ci.LID(r.lid("h1")))))
}

func err1(_ any, err error) error { return err }

// A second manager waits as standby, takes over when the first one is killed, and gives way to one of higher priority.
func TestHandover(t *testing.T) {
	g, err := tree.Generate()
	r := newRig(t, g, err)
	fast := r.options("sminfo_polling_timeout 300", "polling_retry_number 2", "force_log_flush TRUE")
	first := r.manage("h1", append(fast, "-p", "5")...)
	first.waitUp(1)
	second := r.manage("h5", append(fast, "-p", "3")...)
	r.wait("standby", func() bool { return strings.Contains(second.text(), "Entering STANDBY state") })
	state := func(host string) string {
		out, _ := r.try(host, "sminfo", strconv.Itoa(r.lid(host)))
		return out
	}
	assert.Contains(t, state("h1"), "SMINFO_MASTER")
	assert.Contains(t, state("h5"), "SMINFO_STANDBY")
	first.kill()
	r.wait("the second one is master", func() bool { return strings.Contains(second.text(), "Entering MASTER state") })
	second.waitUp(1)
	assert.Contains(t, state("h5"), "SMINFO_MASTER")
	third := r.manage("h3", append(fast, "-p", "9")...)
	r.wait("handover", func() bool {
		return strings.Contains(third.text(), "Entering MASTER state") && strings.Contains(third.text(), "SUBNET UP")
	})
	r.wait("standby again", func() bool { return strings.Count(second.text(), "Entering STANDBY state") == 2 })
	p, err := r.fabric.Port("h8", 1)
	require.NoError(t, err)
	r.wait("the manager's LID is the new one's", func() bool { return int(p.Info().MasterSMLID) == r.lid("h3") })
}

// A manager that is started again finds the subnet as it was, and LIDs stay.
func TestRestart(t *testing.T) {
	r, m := managed(t)
	lid := r.lid("h7")
	m.stop()
	again := r.manage("h4")
	again.waitUp(1)
	assert.Equal(t, lid, r.lid("h7"))
	r.checkUp()
}

// options writes a file of OpenSM options, and returns the arguments that select it.
func (r *rig) options(lines ...string) []string {
	r.t.Helper()
	f := filepath.Join(r.t.TempDir(), "opensm.conf")
	require.NoError(r.t, os.WriteFile(f, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	return []string{"-F", f}
}

// An M_Key that OpenSM configured protects the ports: reading and writing without it fails, and with it works.
func TestMKey(t *testing.T) {
	g, err := tree.Generate()
	r := newRig(t, g, err)
	m := r.manage("h1", r.options("m_key 0x1234", "m_key_protection_level 2", "m_key_lease_period 60",
		"force_log_flush TRUE")...)
	m.waitUp(1)
	lid := strconv.Itoa(r.lid("h6"))
	_, err = r.try("h2", "smpquery", "-t", "300", "nodeinfo", lid)
	require.Error(t, err)
	out := r.run("h2", "smpquery", "-y", "0x1234", "nodeinfo", lid)
	assert.Equal(t, "Channel Adapter", field(t, out, "NodeType"))
	out = r.run("h2", "smpquery", "-K", "-y", "0x1234", "portinfo", lid)
	assert.Equal(t, "0x0000000000001234", field(t, out, "Mkey"))
	violations, err := strconv.Atoi(field(t, out, "MkeyViolations"))
	require.NoError(t, err)
	assert.Positive(t, violations)
	r.checkUp()
}

// Partitions that OpenSM configured reach the P_Key tables of the adapters, and the switches enforce them.
func TestPartitions(t *testing.T) {
	g, err := tree.Generate()
	r := newRig(t, g, err)
	guid := func(name string) string { return "0x" + strconv.FormatUint(g.Nodes[g.Find(name)].PortGUID(1), 16) }
	file := filepath.Join(t.TempDir(), "partitions.conf")
	require.NoError(t, os.WriteFile(file, []byte("Default=0x7fff,ipoib:ALL=limited,SELF=full;\n"+
		"red=0x0101:"+guid("h2")+"=full,"+guid("h3")+"=full;\n"), 0o600))
	m := r.manage("h1", "-P", file)
	m.waitUp(1)
	keys := func(name string) (k []ci.PKey) {
		p, err := r.fabric.Port(name, 1)
		require.NoError(t, err)
		for _, x := range p.PKeys() {
			if x != 0 {
				k = append(k, x)
			}
		}
		return k
	}
	assert.ElementsMatch(t, []ci.PKey{0x7fff, 0x8101}, keys("h2"))
	assert.ElementsMatch(t, []ci.PKey{0x7fff}, keys("h4"))
	assert.ElementsMatch(t, []ci.PKey{0xffff}, keys("h1"))
	out := r.run("h5", "smpquery", "pkeys", strconv.Itoa(r.lid("h2")))
	assert.Contains(t, out, "0x8101")
	// The switch port of h4 enforces the table that OpenSM wrote for it.
	sw, err := r.fabric.Port("s1-1", 4)
	require.NoError(t, err)
	assert.EqualValues(t, 0xc, sw.Info().Enforce&0xc)
	assert.NotContains(t, sw.PKeys(), ci.PKey(0x8101))
}
