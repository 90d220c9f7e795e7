package opensm

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/fabric/topology"
)

// tree is a fat tree of 8 adapters, 2 leaf and 2 spine switches.
var tree = topology.FatTree{Down: []int{4, 2}, Up: []int{1, 2}}

// managed returns a tree that OpenSM at h1 has brought up.
func managed(t *testing.T, args ...string) (*rig, *manager) {
	t.Helper()
	g, err := tree.Generate()
	r := newRig(t, g, err)
	m := r.manage("h1", args...)
	m.waitUp(1)
	return r, m
}

// edges returns the links of a topology by the GUIDs and ports of their ends.
func edges(g *topology.Topology) map[string]bool {
	out := make(map[string]bool)
	for _, l := range g.Links {
		a, b := g.Nodes[l.A.Node].GUID, g.Nodes[l.B.Node].GUID
		x, y := fmt.Sprintf("%x:%d", a, l.A.Port), fmt.Sprintf("%x:%d", b, l.B.Port)
		if y < x {
			x, y = y, x
		}
		out[x+" "+y] = true
	}
	return out
}

// ibnetdiscover finds the nodes and links of the topology file, by directed routes alone and at the rates of the file.
func TestIbnetdiscover(t *testing.T) {
	for _, c := range []func() (*topology.Topology, error){
		topology.FatTree{Down: []int{4, 2}, Up: []int{1, 2}, Rate: topology.Rate{Width: topology.Width12x,
			Speed: topology.EDR}}.
			Generate,
		topology.Torus{Size: []int{3, 3, 3}, Hosts: 1}.Generate,
		topology.Dragonfly{Switches: 3, Hosts: 1, Global: 1}.Generate,
	} {
		g, err := c()
		r := newRig(t, g, err)
		got, err := topology.Read(strings.NewReader(r.run(firstHost(g), "ibnetdiscover")), "ibnetdiscover", nil)
		require.NoError(t, err)
		assert.Equal(t, edges(g), edges(got))
		names := make(map[uint64]string)
		for _, n := range g.Nodes {
			names[n.GUID] = n.Text()
		}
		require.Len(t, got.Nodes, len(g.Nodes))
		for _, n := range got.Nodes {
			assert.Equal(t, names[n.GUID], n.Text())
		}
		w, s := g.Links[0].Rate()
		gw, gs := got.Links[0].Rate()
		assert.Equal(t, topology.FormatRate(w, s), topology.FormatRate(gw, gs))
	}
}

// field returns what follows the name of a field and its dots.
func field(t *testing.T, out, name string) string {
	t.Helper()
	m := regexp.MustCompile(regexp.QuoteMeta(name) + `[:.\s]*\.+\s*(\S.*)`).FindStringSubmatch(out)
	require.NotNil(t, m, "%s in %s", name, out)
	return m[1]
}

// lid returns the LID of an adapter or a switch.
func (r *rig) lid(name string) int {
	r.t.Helper()
	p, err := r.fabric.Port(name, 0)
	require.NoError(r.t, err)
	lid, _ := p.LID()
	return int(lid)
}

// The queries of infiniband-diags show what the fabric has.
func TestQueries(t *testing.T) {
	r, m := managed(t)
	lid := strconv.Itoa(r.lid("h6"))
	out := r.run("h2", "smpquery", "nodeinfo", lid)
	n := r.topo.Nodes[r.topo.Find("h6")]
	assert.Equal(t, fmt.Sprintf("%#016x", n.GUID), field(t, out, "Guid"))
	assert.Equal(t, "Channel Adapter", field(t, out, "NodeType"))
	out = r.run("h2", "smpquery", "-D", "portinfo", "0,1", "5")
	assert.Equal(t, "Active", field(t, out, "LinkState"))
	assert.Equal(t, "4X", field(t, out, "LinkWidthActive"))
	assert.Equal(t, "10.0 Gbps", field(t, out, "LinkSpeedActive"))
	out = r.run("h2", "smpquery", "nodedesc", lid)
	assert.Contains(t, out, "h6")
	out = r.run("h2", "smpquery", "switchinfo", strconv.Itoa(r.lid("s2-1")))
	assert.Equal(t, "12", field(t, out, "LinearFdbTop"))
	for _, op := range []string{"pkeys", "sl2vl", "vlarb", "guidinfo"} {
		r.run("h2", "smpquery", op, lid)
	}
	out = r.run("h2", "sminfo")
	assert.Regexp(t, fmt.Sprintf(`sm lid %d sm guid %#x, activity count \d+ priority \d+ state 3 SMINFO_MASTER`,
		r.lid("h1"), r.topo.Nodes[r.topo.Find("h1")].PortGUID(1)), out)
	out = r.run("h3", "iblinkinfo", "-l")
	assert.Equal(t, 2*len(r.topo.Links), strings.Count(out, "Active/"), out)
	out = r.run("h3", "ibhosts")
	assert.Equal(t, 8, strings.Count(out, "Ca\t"))
	out = r.run("h3", "ibswitches")
	assert.Equal(t, 4, strings.Count(out, "Switch\t"))
	m.stop()
}

// The routes that ibroute and ibtracert read are those of the fabric.
func TestRoutes(t *testing.T) {
	r, _ := managed(t)
	out := r.run("h2", "ibroute", strconv.Itoa(r.lid("s1-1")))
	line := regexp.MustCompile(`(?m)^(0x[0-9a-f]{4}) (\d{3}) :`)
	entries := line.FindAllStringSubmatch(out, -1)
	require.Len(t, entries, 12)
	byLID := make(map[int]int)
	for _, e := range entries {
		lid, _ := strconv.ParseInt(e[1], 0, 32)
		num, _ := strconv.Atoi(e[2])
		byLID[int(lid)] = num
	}
	path, err := r.fabric.Trace("h1", ciLID(r.lid("h8")))
	require.NoError(t, err)
	assert.Equal(t, int(path[2].Num()), byLID[r.lid("h8")])
	assert.Equal(t, 0, byLID[r.lid("s1-1")])

	out = r.run("h2", "ibtracert", strconv.Itoa(r.lid("h1")), strconv.Itoa(r.lid("h8")))
	hop := regexp.MustCompile(`(?m)^\[(\d+)\] -> \S+ port \{0x[0-9a-f]+\}\[(\d+)\] lid \d+-\d+ "([^"]*)"`)
	hops := hop.FindAllStringSubmatch(out, -1)
	require.Len(t, hops, 4, out)
	for i, h := range hops {
		assert.Equal(t, strconv.Itoa(int(path[2*i].Num())), h[1])
		assert.Equal(t, strconv.Itoa(int(path[2*i+1].Num())), h[2])
		assert.Equal(t, path[2*i+1].Node(), h[3])
	}
}

// Records of subnet administration are those of the fabric. The preload library passes the first 256 bytes of a table
// alone, so the queries are for one record each.
func TestSaquery(t *testing.T) {
	r, _ := managed(t)
	for _, name := range []string{"h1", "h7", "s2-2"} {
		out := r.run("h5", "saquery", "NR", strconv.Itoa(r.lid(name)))
		assert.Equal(t, 1, strings.Count(out, "NodeRecord dump:"))
		assert.Equal(t, name, field(t, out, "NodeDescription"))
		n := r.topo.Nodes[r.topo.Find(name)]
		assert.Equal(t, fmt.Sprintf("%#016x", n.GUID), field(t, out, "node_guid"))
	}
	out := r.run("h5", "saquery", "PR", "--slid", strconv.Itoa(r.lid("h5")), "--dlid", strconv.Itoa(r.lid("h1")))
	assert.Contains(t, out, "PathRecord dump:") // bytes after the record look like records to saquery
	assert.Equal(t, strconv.Itoa(r.lid("h1")), field(t, out, "dlid"))
	assert.Equal(t, strconv.Itoa(r.lid("h5")), field(t, out, "slid"))
	out = r.run("h5", "saquery", "PIR", strconv.Itoa(r.lid("h3")))
	assert.Contains(t, out, "PortInfoRecord dump:")
	assert.Equal(t, strconv.Itoa(r.lid("h3")), field(t, out, "EndPortLid"))
	out = r.run("h5", "saquery", "-c")
	assert.Contains(t, out, "SA ClassPortInfo")
}

// perfquery and ibqueryerrors read the counters of the ports.
func TestCounters(t *testing.T) {
	r, _ := managed(t)
	p, err := r.fabric.Port("s1-2", 1)
	require.NoError(t, err)
	lid := strconv.Itoa(r.lid("s1-2"))
	before := r.portStatus("s1-2", 1).Sent
	out := r.run("h2", "perfquery", lid, strconv.Itoa(int(p.Num())))
	sent, err := strconv.ParseUint(field(t, out, "PortXmitPkts"), 10, 64)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, sent, before)
	out = r.run("h2", "perfquery", "-x", lid, "5")
	rcv, err := strconv.ParseUint(field(t, out, "PortRcvPkts"), 10, 64)
	require.NoError(t, err)
	assert.NotZero(t, rcv)
	r.run("h2", "perfquery", "-R", lid, "1")
	out = r.run("h2", "perfquery", lid, "1")
	after, err := strconv.ParseUint(field(t, out, "PortXmitPkts"), 10, 64)
	require.NoError(t, err)
	assert.Less(t, after, sent)
	out, err = r.try("h2", "ibqueryerrors")
	require.NoError(t, err, out)
	assert.Contains(t, out, "12 nodes checked, 0 bad nodes found")
	require.NoError(t, p.SetLink(false))
	require.NoError(t, p.SetLink(true))
	out, _ = r.try("h2", "ibqueryerrors") // its status is the number of bad nodes
	assert.Contains(t, out, "LinkDownedCounter == 1")
}
