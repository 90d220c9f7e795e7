package opensm

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/fabric/topology"
)

// OpenSM brings fabrics up with each routing engine: all ports with a link are active, all end ports have LIDs of their
// own, and each adapter reaches each other one over the forwarding tables.
func TestSweep(t *testing.T) {
	tree := topology.FatTree{Down: []int{4, 2}, Up: []int{1, 2}}
	for _, c := range []struct {
		name string
		make func() (*topology.Topology, error)
	}{
		{"minhop", tree.Generate}, {"updn", tree.Generate}, {"ftree", tree.Generate},
		{"minhop", topology.FatTree{Down: []int{2, 2, 4}, Up: []int{1, 2, 2}}.Generate},
		{"dor", topology.Torus{Size: []int{3, 3}, Hosts: 1, Mesh: true}.Generate},
		{"minhop", topology.Torus{Size: []int{3, 3, 2}, Hosts: 1}.Generate},
		{"minhop", topology.Dragonfly{Switches: 2, Hosts: 2, Global: 1}.Generate},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g, err := c.make()
			r := newRig(t, g, err)
			first := firstHost(g)
			m := r.manage(first, "-R", c.name)
			m.waitUp(1)
			assert.NotContains(t, m.text(), " ERR ")
			assert.Contains(t, m.text(), c.name+" tables configured")
			r.checkUp()
		})
	}
}

// firstHost returns the ID of the first adapter.
func firstHost(g *topology.Topology) string {
	for i := range g.Nodes {
		if g.Nodes[i].Kind == topology.CA {
			return g.Nodes[i].ID
		}
	}
	return ""
}

// checkUp checks the state of all ports, and all routes between adapters.
func (r *rig) checkUp() {
	t := r.t
	t.Helper()
	lids := make(map[ci.LID]string)
	for _, l := range r.topo.Links {
		for _, e := range [2]topology.End{l.A, l.B} {
			p, err := r.fabric.Port(r.topo.Nodes[e.Node].ID, e.Port)
			require.NoError(t, err)
			require.Equal(t, ci.PortActive, p.State(), "%s port %d", p.Node(), p.Num())
			if r.topo.Nodes[e.Node].Kind != topology.Switch {
				lid, _ := p.LID()
				require.NotZero(t, lid)
				require.Empty(t, lids[lid], "LID %d", lid)
				lids[lid] = p.Node()
			}
		}
	}
	for from, name := range lids {
		for to, want := range lids {
			path, err := r.fabric.Trace(name, to)
			require.NoError(t, err, "%s to %d", name, to)
			require.Equal(t, want, path[len(path)-1].Node(), "from %d to %d", from, to)
		}
	}
}

// The log of a manager that stops in order has no error.
func TestStop(t *testing.T) {
	g, err := topology.FatTree{Down: []int{2, 2}, Up: []int{1, 1}}.Generate()
	r := newRig(t, g, err)
	m := r.manage("h1")
	m.waitUp(1)
	m.stop()
	assert.Equal(t, 1, strings.Count(m.text(), "Exiting SM"))
	assert.NotContains(t, m.text(), " ERR ")
}
