package opensm

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/accesslayer/mads"
	"ciddk/accesslayer/sa"
	"ciddk/ci"
	"ciddk/fabric/topology"
	"ciddk/hca/reference"
	"ciddk/mad"
	"ciddk/rvt"
)

// A host is an adapter at a node with an access layer.
type host struct {
	hca  *reference.HCA
	al   *accesslayer.AL
	mads *mads.Manager
	sa   *sa.Client
	port mads.Port
	lid  ci.LID
	gid  ci.GID
}

// host opens an adapter at a node, with a client of subnet administration.
func (r *rig) host(name string) *host {
	t := r.t
	t.Helper()
	p, err := r.fabric.CAPort(name, 0)
	require.NoError(t, err)
	h := &host{}
	h.hca, err = reference.New(reference.Config{Ports: []rvt.Port{p}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.hca.Close()) })
	al := accesslayer.New(accesslayer.Config{})
	t.Cleanup(func() { require.NoError(t, al.Close()) })
	require.NoError(t, al.Register(h.hca))
	m, err := mads.New(al, mads.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	h.al, h.mads = al, m
	h.sa = sa.New(al, m, sa.Config{})
	t.Cleanup(func() { require.NoError(t, h.sa.Close()) })
	h.port = mads.Port{CA: h.hca.Info().GUID, Num: 1}
	a := p.Attr()
	h.lid, h.gid = a.LID, a.GIDs[0].GID
	return h
}

// The access layer's client gets paths from OpenSM's subnet administration, and joins a multicast group, for which
// OpenSM writes the forwarding tables of the switches.
func TestSubnetAdministration(t *testing.T) {
	r, _ := managed(t)
	a, b := r.host("h2"), r.host("h7")
	path, err := a.sa.Path(t.Context(), a.port, sa.PathQuery{SGID: a.gid, DGID: b.gid})
	require.NoError(t, err)
	assert.EqualValues(t, a.lid, path.SLID)
	assert.EqualValues(t, b.lid, path.DLID)
	assert.Equal(t, mad.MTU4096, path.MTU)
	assert.Equal(t, 40000, path.Rate.Mbps()) // 4xQDR

	group := mad.MCMemberRecord{MGID: [16]byte{0xff, 0x12, 0x12, 0x34, 15: 0x77}, QKey: 7, PKey: 0xffff,
		JoinState: mad.FullMember}
	mask := mad.MCMGID | mad.MCPortGID | mad.MCJoinState | mad.MCPKey | mad.MCQKey | mad.MCSL | mad.MCFlowLabel |
		mad.MCTrafficClass
	var mlid uint16
	for _, h := range []*host{a, b} {
		group.PortGID = h.gid
		got, err := h.sa.Join(t.Context(), h.port, group, mask)
		require.NoError(t, err)
		assert.GreaterOrEqual(t, got.MLID, uint16(0xc000))
		mlid = got.MLID
	}
	r.wait("the tables of the group", func() bool { return r.members(ci.LID(mlid), "h2")["h7"] })
	assert.Equal(t, map[string]bool{"h2": true, "h7": true}, r.members(ci.LID(mlid), "h2"))
}

// members returns the adapters that the forwarding tables of a multicast LID connect with one of them.
func (r *rig) members(mlid ci.LID, from string) map[string]bool {
	r.t.Helper()
	p, err := r.fabric.Port(from, 0)
	require.NoError(r.t, err)
	reached, err := r.fabric.TraceMulticast(p.Node(), mlid)
	require.NoError(r.t, err)
	out := map[string]bool{from: true}
	for _, p := range reached {
		if r.topo.Nodes[r.topo.Find(p.Node())].Kind == topology.CA {
			out[p.Node()] = true
		}
	}
	return out
}
