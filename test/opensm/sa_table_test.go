package opensm

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/mads"
	"ciddk/accesslayer/sa"
	"ciddk/ci"
	"ciddk/fabric/topology"
	"ciddk/mad"
)

// whole makes the programs of a rig pass whole messages to the server; see testdata/whole.c.
func (r *rig) whole() {
	r.t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		if os.Getenv(requireVariable) != "" {
			r.t.Fatalf("gcc is missing (%s is set)", requireVariable)
		}
		r.t.Skip("gcc is missing: apt-get install gcc libc6-dev")
	}
	object := filepath.Join(r.t.TempDir(), "whole.so")
	out, err := exec.CommandContext(r.t.Context(), "gcc", "-shared", "-fPIC", "-O1", "-o", object,
		"testdata/whole.c", "-ldl").CombinedOutput()
	require.NoError(r.t, err, "%s", out)
	r.library = object + ":" + r.library
}

// managedWhole is managed for an OpenSM that passes whole messages.
func managedWhole(t *testing.T, args ...string) *rig {
	t.Helper()
	g, err := tree.Generate()
	r := newRig(t, g, err)
	r.whole()
	r.manage("h1", args...).waitUp(1)
	return r
}

// Tables that OpenSM sends in many segments have the records of the topology.
func TestTables(t *testing.T) {
	r := managedWhole(t)
	h := r.host("h2")
	ctx := t.Context()

	nodes, err := sa.NodeRecords.Table(ctx, h.sa, h.port, mad.NodeRecord{}, 0)
	require.NoError(t, err)
	got, want := map[string]uint64{}, map[string]uint64{}
	for _, n := range nodes {
		got[n.DescriptionString()] = n.NodeInfo.NodeGUID
	}
	for _, n := range r.topo.Nodes {
		want[n.ID] = n.GUID
	}
	assert.Equal(t, want, got)

	ports, err := sa.PortInfoRecords.Table(ctx, h.sa, h.port, mad.PortInfoRecord{}, 0)
	require.NoError(t, err)
	assert.Greater(t, len(ports), 2*len(r.topo.Links))
	active := 0
	for _, p := range ports {
		if p.PortInfo.State == uint8(ci.PortActive) && p.PortNum != 0 {
			active++
		}
	}
	assert.Equal(t, 2*len(r.topo.Links), active)

	links, err := sa.LinkRecords.Table(ctx, h.sa, h.port, mad.LinkRecord{}, 0)
	require.NoError(t, err)
	assert.ElementsMatch(t, r.links(), links)

	one, err := sa.PortInfoRecords.Table(ctx, h.sa, h.port, mad.PortInfoRecord{EndportLID: uint16(h.lid)},
		mad.PortInfoRecordLID)
	require.NoError(t, err)
	require.Len(t, one, 1)
	assert.EqualValues(t, h.lid, one[0].PortInfo.LID)

	paths, err := sa.PathRecords.Table(ctx, h.sa, h.port, mad.PathRecord{SGID: h.gid}, mad.PathSGID)
	require.NoError(t, err)
	to := map[uint16]bool{}
	for _, p := range paths {
		assert.EqualValues(t, h.lid, p.SLID)
		to[p.DLID] = true
	}
	assert.Len(t, to, len(r.topo.Nodes), "a path to each LID")

	managers, err := sa.SMInfoRecords.Table(ctx, h.sa, h.port, mad.SMInfoRecord{}, 0)
	require.NoError(t, err)
	require.Len(t, managers, 1)
	assert.Equal(t, mad.SMMaster, managers[0].SMInfo.State)

	switches, err := sa.SwitchInfoRecords.Table(ctx, h.sa, h.port, mad.SwitchInfoRecord{}, 0)
	require.NoError(t, err)
	assert.Len(t, switches, 4)

	info, err := sa.ClassPortInfos.Get(ctx, h.sa, h.port, mad.ClassPortInfo{}, 0)
	require.NoError(t, err)
	assert.EqualValues(t, mad.ClassVersionSubnetAdmin, info.ClassVersion)

	none, err := sa.NodeRecords.Table(ctx, h.sa, h.port, mad.NodeRecord{LID: 0x999}, mad.NodeRecordLID)
	require.NoError(t, err)
	assert.Empty(t, none)
}

// links returns the records of all links.
func (r *rig) links() (list []mad.LinkRecord) {
	end := func(e topology.End) (lid uint16, port uint8) {
		return uint16(r.lid(r.topo.Nodes[e.Node].ID)), uint8(e.Port)
	}
	for _, l := range r.topo.Links {
		la, pa := end(l.A)
		lb, pb := end(l.B)
		list = append(list, mad.LinkRecord{FromLID: la, FromPort: pa, ToPort: pb, ToLID: lb},
			mad.LinkRecord{FromLID: lb, FromPort: pb, ToPort: pa, ToLID: la})
	}
	return list
}

// A table longer than Config.MaxTable is refused, and one that the stock preload library cuts is an error.
func TestTableBounds(t *testing.T) {
	r := managedWhole(t)
	h := r.host("h2")
	c := sa.New(h.al, h.mads, sa.Config{MaxTable: 1000})
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	_, err := sa.NodeRecords.Table(t.Context(), c, h.port, mad.NodeRecord{}, 0)
	assert.Equal(t, ci.InsufficientResources, ci.StatusOf(err), "%v", err)
	links, err := sa.LinkRecords.Table(t.Context(), c, h.port, mad.LinkRecord{}, 0)
	require.NoError(t, err)
	assert.Len(t, links, 2*len(r.topo.Links))
}

// The stock preload library cuts what OpenSM writes at 256 bytes. Tables that fit are right, others are an error.
func TestTableCut(t *testing.T) {
	r, _ := managed(t)
	h := r.host("h2")
	c := sa.New(h.al, h.mads, sa.Config{Retries: -1})
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	links, err := sa.LinkRecords.Table(t.Context(), c, h.port, mad.LinkRecord{}, 0)
	require.NoError(t, err)
	assert.ElementsMatch(t, r.links(), links)
	_, err = sa.NodeRecords.Table(t.Context(), c, h.port, mad.NodeRecord{}, 0)
	var cut *mads.RMPPError
	require.ErrorAs(t, err, &cut)
	assert.Equal(t, mad.RMPPUnspecified, cut.Status)
}
