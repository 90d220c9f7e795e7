package fabric

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/fabric/topology"
	"ciddk/internal/linktest"
	"ciddk/mad"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// twoLevels is a tree of 8 adapters h1 to h8, 2 leaf and 2 spine switches.
func twoLevels(t testing.TB) *Fabric {
	t.Helper()
	g, err := topology.FatTree{Down: []int{4, 2}, Up: []int{1, 2}}.Generate()
	require.NoError(t, err)
	f, err := New(g, Config{})
	require.NoError(t, err)
	t.Cleanup(f.Close)
	return f
}

func port(t testing.TB, f *Fabric, name string, num int) *Port {
	t.Helper()
	p, err := f.Port(name, num)
	require.NoError(t, err)
	return p
}

func adapter(t testing.TB, f *Fabric, name string, typ ci.QPType) *linktest.Node {
	t.Helper()
	p, err := f.CAPort(name, 0)
	require.NoError(t, err)
	return linktest.Open(t, typ, 1<<19, p)
}

// drops returns the packets that were dropped, by reason, without zeros.
func drops(f *Fabric) map[string]uint64 {
	m := make(map[string]uint64)
	f.AddCounters(m)
	for k, v := range m {
		if v == 0 {
			delete(m, k)
		}
	}
	return m
}

// All ports with a link come up in Init, and Configure makes them active with LIDs of their own.
func TestConfigure(t *testing.T) {
	f := twoLevels(t)
	for _, n := range f.nodes {
		for i := range n.ports {
			want := ci.PortInit
			if n.ports[i].num == 0 && n.sw != nil {
				want = ci.PortActive
			}
			require.Equal(t, want, n.ports[i].State(), "%s %d", n.desc.ID, n.ports[i].num)
		}
	}
	require.NoError(t, f.Configure())
	lids := make(map[ci.LID]bool)
	for _, n := range f.nodes {
		for i := range n.ports {
			require.Equal(t, ci.PortActive, n.ports[i].State())
		}
		lid, _ := n.ports[0].LID()
		require.NotZero(t, lid)
		lids[lid] = true
	}
	assert.Len(t, lids, 12)
	require.NoError(t, f.Configure()) // again
}

// A subnet that is kept configured heals without a subnet manager: around a cut cable, and when an adapter is back,
// which keeps its LID.
func TestKeepConfigured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := twoLevels(t)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- f.KeepConfigured(ctx) }()
		synctest.Wait()
		h1, h8 := port(t, f, "h1", 1), port(t, f, "h8", 1)
		lid, _ := h8.LID()
		path, err := f.Trace("h1", lid)
		require.NoError(t, err)
		require.Len(t, path, 8)
		require.NoError(t, path[2].SetLink(false))
		synctest.Wait()
		other, err := f.Trace("h1", lid)
		require.NoError(t, err)
		require.Len(t, other, 8)
		assert.NotEqual(t, path[3].Node(), other[3].Node())
		require.NoError(t, h1.SetLink(false))
		synctest.Wait()
		require.NoError(t, path[2].SetLink(true))
		require.NoError(t, h1.SetLink(true))
		synctest.Wait()
		assert.Equal(t, ci.PortActive, h1.State())
		assert.Equal(t, ci.PortActive, path[2].State())
		now, _ := h8.LID()
		assert.Equal(t, lid, now)
		_, err = f.Trace("h1", lid)
		require.NoError(t, err)
		cancel()
		require.NoError(t, <-ended)
	})
}

// Every operation of RC works between adapters on different leaf switches, over LIDs, and the ports of the way count
// the same packets.
func TestReliableConnection(t *testing.T) {
	f := twoLevels(t)
	require.NoError(t, f.Configure())
	a, b := adapter(t, f, "h1", ci.RC), adapter(t, f, "h8", ci.RC)
	linktest.ConnectBoth(a, b)
	linktest.Exercise(t, a, b)
	assert.Empty(t, drops(f))
	x, y := port(t, f, "h1", 1), port(t, f, "h8", 1)
	sent := x.count.xmitPackets.Load()
	assert.Greater(t, sent, uint64(2*300_000/4096))
	assert.Equal(t, sent, y.count.rcvPackets.Load())
	assert.Equal(t, x.count.xmitBytes.Load(), y.count.rcvBytes.Load())
	assert.Equal(t, sent, x.peer.Load().count.rcvPackets.Load())
}

// An adapter that sends to its own LID reaches itself.
func TestOwnLID(t *testing.T) {
	f := twoLevels(t)
	require.NoError(t, f.Configure())
	a := adapter(t, f, "h1", ci.RC)
	a.Connect(a)
	a.Send(ci.SendWR{Op: ci.OpWrite, Flags: ci.SendSignaled, SGL: a.SGE(0, 9000), Remote: a.MR.Region().Remote(10000)})
	a.Poll(1)
	assert.Zero(t, port(t, f, "h1", 1).count.xmitPackets.Load())
}

// A port has one adapter at a time, and switches have none.
func TestCAPortErrors(t *testing.T) {
	f := twoLevels(t)
	p, err := f.CAPort("h1", 1)
	require.NoError(t, err)
	_, err = f.CAPort("h1", 1)
	require.ErrorContains(t, err, "has an adapter")
	require.NoError(t, p.Close())
	require.NoError(t, p.Close())
	p, err = f.CAPort("h1", 1)
	require.NoError(t, err)
	require.NoError(t, p.Close())
	_, err = f.CAPort("s1-1", 1)
	require.ErrorContains(t, err, "is a switch")
	_, err = f.CAPort("h9", 1)
	require.ErrorContains(t, err, "no node")
	_, err = f.CAPort("h1", 2)
	require.ErrorContains(t, err, "no port 2")
	_, err = f.Port("H1", 0)
	require.ErrorContains(t, err, `did you mean "h1"?`)
}

// setRoute changes an entry of a forwarding table.
func setRoute(t testing.TB, f *Fabric, sw string, lid ci.LID, out uint8) {
	t.Helper()
	n := port(t, f, sw, 0).node
	block := uint32(lid) / 64
	var data [mad.SMPDataLen]byte
	for i := range data {
		data[i] = n.soft.Route(ci.LID(block*64) + ci.LID(i))
	}
	data[lid%64] = out
	require.NoError(t, n.set(0, mad.AttrLinearTable, block, &data))
}

// portTo returns the number of the port of a switch that leads to a node.
func portTo(t testing.TB, f *Fabric, sw, to string) uint8 {
	t.Helper()
	n := port(t, f, sw, 0).node
	for i := range n.ports {
		if q := n.ports[i].peer.Load(); q != nil && q.node.desc.ID == to {
			return n.ports[i].num
		}
	}
	require.FailNow(t, "no link", "%s to %s", sw, to)
	return 0
}

// ping sends one datagram of unreliable service, without a payload, from a to b.
func ping(t testing.TB, a, b *linktest.Node) {
	t.Helper()
	av, err := a.PD.CreateAV(a.AV(b))
	require.NoError(t, err)
	defer func() { require.NoError(t, av.Destroy()) }()
	a.Send(ci.SendWR{Op: ci.OpSend, Flags: ci.SendSignaled, To: ci.Dest{AV: av, QPN: b.QP.Num(), QKey: 7}})
	a.Poll(1)
}

// openUD makes the node's QP ready for datagrams.
func openUD(t testing.TB, n *linktest.Node) {
	t.Helper()
	require.NoError(t, n.QP.Modify(ci.QPFieldsUDInit, ci.QPAttr{State: ci.QPInit, Port: 1, QKey: 7}))
	require.NoError(t, n.QP.Modify(ci.QPFieldsUDRTR, ci.QPAttr{State: ci.QPRTR}))
	require.NoError(t, n.QP.Modify(ci.QPFieldsUDRTS, ci.QPAttr{State: ci.QPRTS}))
}

// A packet in a routing loop is dropped after a bounded number of switches, and counted.
func TestRoutingLoop(t *testing.T) {
	f := twoLevels(t)
	require.NoError(t, f.Configure())
	a, b := adapter(t, f, "h1", ci.UD), adapter(t, f, "h8", ci.UD)
	openUD(t, a)
	openUD(t, b)
	setRoute(t, f, "s1-1", b.Attr.LID, portTo(t, f, "s1-1", "s2-1"))
	setRoute(t, f, "s2-1", b.Attr.LID, portTo(t, f, "s2-1", "s1-2"))
	setRoute(t, f, "s1-2", b.Attr.LID, portTo(t, f, "s1-2", "s2-2"))
	setRoute(t, f, "s2-2", b.Attr.LID, portTo(t, f, "s2-2", "s1-1"))
	ping(t, a, b)
	assert.Equal(t, map[string]uint64{"fabric_drop_loop": 1}, drops(f))
	// SMPs are bounded in the same way.
	d := Datagram{DLID: b.Attr.LID, MAD: get(mad.AttrNodeInfo, 0)}
	require.ErrorIs(t, port(t, f, "h1", 1).Send(&d), ErrDiscarded)
	assert.EqualValues(t, 2, drops(f)["fabric_drop_loop"])
	// A route back out of the input port is none.
	setRoute(t, f, "s1-1", b.Attr.LID, portTo(t, f, "s1-1", "h1"))
	ping(t, a, b)
	assert.EqualValues(t, 1, drops(f)["fabric_drop_no_route"])
}

// get returns an SMP by LID that reads an attribute.
func get(attr uint16, modifier uint32) *ci.MAD {
	s := mad.SMP{Header: mad.Header{BaseVersion: 1, Class: mad.ClassSubnetLID, ClassVersion: 1, Method: mad.Get,
		TID: 1, Attribute: attr, Modifier: modifier}}
	m := new(ci.MAD)
	s.Put(m[:])
	return m
}

// directed returns an SMP by directed route that reads an attribute.
func directed(attr uint16, modifier uint32, path ...uint8) *ci.MAD {
	s := mad.SMP{Header: mad.Header{BaseVersion: 1, Class: mad.ClassSubnetDirected, ClassVersion: 1, Method: mad.Get,
		TID: 1, Attribute: attr, Modifier: modifier}, DrSLID: 0xffff, DrDLID: 0xffff}
	s.SetHops(0, uint8(len(path)))
	copy(s.InitialPath[1:], path)
	m := new(ci.MAD)
	s.Put(m[:])
	return m
}

// recorder is a client that keeps what it gets.
type recorder struct {
	all bool // requests, too
	mu  sync.Mutex
	got []ci.MAD // guarded by mu while agents repeat traps
}

func (r *recorder) Take(d *Datagram) bool {
	if !r.all && d.MAD[3]&0x80 == 0 {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, *d.MAD)
	return true
}

// last returns the last datagram, as an SMP.
func (r *recorder) last(t testing.TB) (s mad.SMP) {
	t.Helper()
	require.NotEmpty(t, r.got)
	s.Parse(r.got[len(r.got)-1][:])
	return s
}

// Directed routes reach the node at their end hop by hop, before there are any LIDs, and the response comes back.
func TestDirectedRoutes(t *testing.T) {
	f := twoLevels(t)
	h := port(t, f, "h1", 1)
	var r recorder
	defer h.Attach(&r)()
	leaf, spine := portTo(t, f, "s1-1", "s2-2"), portTo(t, f, "s2-2", "s1-2")
	end := portTo(t, f, "s1-2", "h7")
	for _, c := range []struct {
		path []uint8
		node string
		port uint8
	}{{nil, "h1", 1}, {[]uint8{1}, "s1-1", portTo(t, f, "s1-1", "h1")},
		{[]uint8{1, leaf}, "s2-2", portTo(t, f, "s2-2", "s1-1")},
		{[]uint8{1, leaf, spine, end}, "h7", 1}} {
		require.NoError(t, h.Send(&Datagram{SLID: 0xffff, DLID: 0xffff, MAD: directed(mad.AttrNodeInfo, 0, c.path...)}))
		s := r.last(t)
		require.Equal(t, mad.GetResp, s.Method)
		require.Equal(t, mad.StatusDirection, s.Status)
		require.Zero(t, s.HopPointer())
		var i mad.NodeInfo
		i.Parse(s.Data[:])
		want := port(t, f, c.node, 0).node
		assert.Equal(t, want.desc.GUID, i.NodeGUID)
		assert.Equal(t, c.port, i.LocalPort)
	}
	for name, m := range map[string]*ci.MAD{
		"a port without a link": directed(mad.AttrNodeInfo, 0, 1, 200), "another first port": directed(mad.AttrNodeInfo,
			0, 2),
		"through an adapter": directed(mad.AttrNodeInfo, 0, 1, leaf, spine, end,
			1), "port 0": directed(mad.AttrNodeInfo, 0, 1, 0),
	} {
		assert.ErrorIs(t, h.Send(&Datagram{SLID: 0xffff, DLID: 0xffff, MAD: m}), ErrDiscarded, name)
	}
}

// A response by LID finds its way back, requests for managers reach the clients of the port, and those that nobody
// takes are discarded.
func TestSMPByLID(t *testing.T) {
	f := twoLevels(t)
	require.NoError(t, f.Configure())
	a, b := port(t, f, "h1", 1), port(t, f, "h5", 1)
	var r recorder
	defer a.Attach(&r)()
	to, _ := b.LID()
	require.NoError(t, a.Send(&Datagram{DLID: to, MAD: get(mad.AttrNodeDescription, 0)}))
	s := r.last(t)
	assert.Equal(t, "h5", string(s.Data[:2]))
	require.ErrorIs(t, a.Send(&Datagram{DLID: to, MAD: get(mad.AttrSMInfo, 0)}), ErrDiscarded)
	manager := recorder{all: true}
	detach := b.Attach(&manager)
	require.NoError(t, a.Send(&Datagram{DLID: to, MAD: get(mad.AttrSMInfo, 0)}))
	assert.Len(t, manager.got, 1)
	detach()
	sw, _ := port(t, f, "s2-1", 0).LID()
	require.NoError(t, a.Send(&Datagram{DLID: sw, MAD: get(mad.AttrSwitchInfo, 0)}))
	var i mad.SwitchInfo
	s = r.last(t)
	i.Parse(s.Data[:])
	assert.EqualValues(t, 12, i.LinearFDBTop)
}

// PMA requests are answered from the counters of the port, wherever they come from.
func TestPerformance(t *testing.T) {
	f := twoLevels(t)
	require.NoError(t, f.Configure())
	a := port(t, f, "h1", 1)
	var r recorder
	defer a.Attach(&r)()
	to, _ := port(t, f, "s1-1", 0).LID()
	m := new(ci.MAD)
	p := mad.Perf{Header: mad.Header{BaseVersion: 1, Class: mad.ClassPerformance, ClassVersion: 1, Method: mad.Get,
		TID: 3, Attribute: mad.AttrPortCountersExtended}}
	p.Data[1] = portTo(t, f, "s1-1", "h1")
	p.Put(m[:])
	require.NoError(t, a.Send(&Datagram{DLID: to, SrcQP: 1, DestQP: 1, PKey: 0xffff,
		QKey: ci.QKey(mad.QKeyGSI), MAD: m}))
	require.NotEmpty(t, r.got)
	p.Parse(r.got[0][:])
	require.Equal(t, mad.GetResp, p.Method)
	var c mad.PortCountersExtended
	c.Parse(p.Data[:])
	assert.EqualValues(t, 1, c.PortRcvPkts)
	assert.EqualValues(t, gmpBytes/4, c.PortRcvData)
}

// A cut cable takes both ports down, packets are dropped where it was, and the link comes up again in Init.
func TestCut(t *testing.T) {
	f := twoLevels(t)
	require.NoError(t, f.Configure())
	a, b := adapter(t, f, "h1", ci.UD), adapter(t, f, "h8", ci.UD)
	openUD(t, a)
	openUD(t, b)
	out := port(t, f, "s1-1", int(portTo(t, f, "s1-1", "s2-1")))
	other := out.peer.Load()
	setRoute(t, f, "s1-1", b.Attr.LID, out.num)
	require.NoError(t, out.SetLink(false))
	require.NoError(t, out.SetLink(false))
	assert.Equal(t, ci.PortDown, out.State())
	assert.Equal(t, ci.PortDown, other.State())
	assert.EqualValues(t, 1, out.count.linkDowned.Load())
	assert.True(t, out.node.soft.SwitchInfo().PortStateChange)
	ping(t, a, b)
	assert.EqualValues(t, 1, out.count.xmitDiscards.Load())
	require.NoError(t, other.SetLink(true))
	assert.Equal(t, ci.PortInit, out.State())
	assert.Equal(t, ci.PortInit, other.State())
	ping(t, a, b) // Init does not pass data
	assert.EqualValues(t, 2, out.count.xmitDiscards.Load())
	require.NoError(t, f.Configure())
	b.Recv(ci.RecvWR{ID: 1, SGL: b.SGE(0, 64)})
	ping(t, a, b)
	b.Poll(1)
	require.NoError(t, a.HCA.SetLink(1, false))
	require.Equal(t, ci.EventPortDown, (<-a.Events).Type)
	assert.Equal(t, ci.PortDown, port(t, f, "h1", 1).State())
	require.ErrorContains(t, port(t, f, "s1-1", 0).SetLink(false), "has no cable")
}

// Set(PortInfo) with Down makes a link train again, and with Disabled it stays down until it polls.
func TestRetrain(t *testing.T) {
	f := twoLevels(t)
	require.NoError(t, f.Configure())
	a := port(t, f, "h1", 1)
	var r recorder
	defer a.Attach(&r)()
	num := portTo(t, f, "s1-1", "s2-1")
	sw := port(t, f, "s1-1", int(num))
	set := func(change func(*mad.PortInfo)) {
		i, _ := sw.node.soft.PortInfo(num)
		i.State, i.PhysState = 0, 0
		change(&i)
		m := directed(mad.AttrPortInfo, uint32(num), 1)
		m[3] = byte(mad.Set)
		i.Put(m[64:128])
		require.NoError(t, a.Send(&Datagram{SLID: 0xffff, DLID: 0xffff, MAD: m}))
		s := r.last(t)
		require.Equal(t, mad.StatusDirection, s.Status)
	}
	set(func(i *mad.PortInfo) { i.State = uint8(ci.PortDown) })
	assert.Equal(t, ci.PortInit, sw.State())
	assert.Equal(t, ci.PortInit, sw.peer.Load().State())
	other := sw.peer.Load()
	set(func(i *mad.PortInfo) { i.State, i.PhysState = uint8(ci.PortDown), 3 })
	assert.Equal(t, ci.PortDown, sw.State())
	assert.Equal(t, ci.PortDown, other.State())
	set(func(i *mad.PortInfo) { i.State, i.PhysState = uint8(ci.PortDown), 2 })
	assert.Equal(t, ci.PortInit, sw.State())
	assert.Equal(t, ci.PortInit, other.State())
}

// The speed of a link is the fastest one that both ends have enabled.
func TestSpeed(t *testing.T) {
	g, err := topology.Torus{Size: []int{2}, Hosts: 1, Rate: topology.Rate{Width: topology.Width12x,
		Speed: topology.EDR}}.
		Generate()
	require.NoError(t, err)
	f, err := New(g, Config{})
	require.NoError(t, err)
	defer f.Close()
	p := port(t, f, "s0", 1)
	i := p.Info()
	assert.EqualValues(t, 8, i.WidthActive)
	assert.EqualValues(t, 2, i.SpeedExtActive)
	var data [mad.SMPDataLen]byte
	i.State, i.PhysState = 0, 0
	i.SpeedExtEnabled, i.WidthEnabled = 1, 2
	i.Put(data[:])
	require.NoError(t, p.node.set(1, mad.AttrPortInfo, 1, &data))
	f.retrain(p)
	i = p.Info()
	assert.EqualValues(t, 2, i.WidthActive)
	assert.EqualValues(t, 1, i.SpeedExtActive)
	assert.Equal(t, i.SpeedExtActive, p.peer.Load().Info().SpeedExtActive)
}

// joinGroup writes a spanning tree for a multicast LID: all ports of the leaf switches and of one spine.
func joinGroup(t testing.TB, f *Fabric, mlid ci.LID, masks map[string]uint16) {
	t.Helper()
	for name, mask := range masks {
		var data [mad.SMPDataLen]byte
		binary.BigEndian.PutUint16(data[2*(mlid&31):], mask)
		require.NoError(t, port(t, f, name, 0).node.set(0, mad.AttrMulticastTable, uint32(mlid-0xc000)/32, &data))
	}
}

// Multicast packets reach each member once, along the forwarding tables, and a loop in the tables is bounded.
func TestMulticast(t *testing.T) {
	f := twoLevels(t)
	require.NoError(t, f.Configure())
	gid := ci.GID{0xff, 0x12, 15: 9}
	const mlid = 0xc003
	var nodes []*linktest.Node
	for i := range 8 {
		n := adapter(t, f, fmt.Sprintf("h%d", i+1), ci.UD)
		openUD(t, n)
		g, err := n.QP.AttachMcast(ci.McastAttach{GID: gid, LID: mlid})
		require.NoError(t, err)
		defer func() { require.NoError(t, g.Destroy()) }()
		n.Recv(ci.RecvWR{SGL: n.SGE(0, 64)})
		nodes = append(nodes, n)
	}
	up := func(leaf, spine string) uint16 { return 1 << portTo(t, f, leaf, spine) }
	hosts := func(leaf string, names ...string) (m uint16) {
		for _, n := range names {
			m |= 1 << portTo(t, f, leaf, n)
		}
		return m
	}
	joinGroup(t, f, mlid, map[string]uint16{
		"s1-1": hosts("s1-1", "h1", "h2") | up("s1-1", "s2-1"), "s1-2": hosts("s1-2", "h7") | up("s1-2", "s2-1"),
		"s2-1": up("s2-1", "s1-1") | up("s2-1", "s1-2"),
	})
	send := func() {
		av, err := nodes[0].PD.CreateAV(ci.AVAttr{Port: 1, DLID: mlid, Global: true,
			GRH: ci.GRH{DGID: gid, HopLimit: 1}})
		require.NoError(t, err)
		nodes[0].Send(ci.SendWR{Op: ci.OpSend, To: ci.Dest{AV: av, QPN: 0xffffff, QKey: 7}})
		require.NoError(t, av.Destroy())
	}
	send()
	for _, i := range []int{0, 1, 6} {
		nodes[i].Poll(1)
	}
	for _, i := range []int{2, 3, 4, 5, 7} {
		assert.Zero(t, port(t, f, fmt.Sprintf("h%d", i+1), 1).count.rcvPackets.Load(), i)
	}
	assert.EqualValues(t, 1, port(t, f, "h7", 1).count.rcvMulticast.Load())
	assert.Empty(t, drops(f))

	all := uint16(0xfffe)
	joinGroup(t, f, mlid, map[string]uint16{"s1-1": all, "s1-2": all, "s2-1": all, "s2-2": all})
	send()
	assert.NotZero(t, drops(f)["fabric_drop_loop"])
}

// A switch port that enforces partitions drops packets with other P_Keys, on each side.
func TestPartitionEnforcement(t *testing.T) {
	f := twoLevels(t)
	require.NoError(t, f.Configure())
	a, b := adapter(t, f, "h1", ci.UD), adapter(t, f, "h2", ci.UD)
	openUD(t, a)
	openUD(t, b)
	sw := port(t, f, "s1-1", int(portTo(t, f, "s1-1", "h1")))
	enforce := func(p *Port, bits uint8, key uint16) {
		var data [mad.SMPDataLen]byte
		binary.BigEndian.PutUint16(data[:], key)
		require.NoError(t, p.node.set(0, mad.AttrPKeyTable, uint32(p.num)<<16, &data))
		require.NoError(t, p.node.setPortInfo(p.num, func(i *mad.PortInfo) { i.Enforce = bits }))
	}
	enforce(sw, 8, 0x8001)
	ping(t, a, b)
	assert.Equal(t, map[string]uint64{"fabric_drop_pkey_in": 1}, drops(f))
	enforce(sw, 8, 0xffff)
	enforce(port(t, f, "s1-1", int(portTo(t, f, "s1-1", "h2"))), 4, 0x8001)
	ping(t, a, b)
	assert.EqualValues(t, 1, drops(f)["fabric_drop_pkey_out"])
	assert.EqualValues(t, 1, sw.count.rcvViolation.Load())
}

// traps returns the traps with a number that a recorder got, without repetitions.
func (r *recorder) traps(num uint16) (list []mad.Notice) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := map[uint64]bool{}
	for i := range r.got {
		var n mad.Notice
		n.Parse(r.got[i][64:128])
		tid := binary.BigEndian.Uint64(r.got[i][8:])
		if mad.Method(r.got[i][3]) == mad.Trap && n.Trap == num && !seen[tid] {
			seen[tid] = true
			list = append(list, n)
		}
	}
	return list
}

// Packets with wrong keys make the port that drops them count them and send a trap: an adapter 257 and 258, a switch
// 259.
func TestViolations(t *testing.T) {
	f := twoLevels(t)
	require.NoError(t, f.Configure()) // LID 1 is the manager's
	manager := recorder{all: true}
	defer port(t, f, "h1", 1).Attach(&manager)()
	a, b := adapter(t, f, "h2", ci.UD), adapter(t, f, "h8", ci.UD)
	openUD(t, a)
	openUD(t, b)
	set := func(p *Port, key uint16) {
		var data [mad.SMPDataLen]byte
		binary.BigEndian.PutUint16(data[:], key)
		require.NoError(t, p.node.set(p.num, mad.AttrPKeyTable, uint32(p.num)<<16*uint32(p.node.desc.Kind-1), &data))
	}
	send := func(qkey ci.QKey) {
		av, err := a.PD.CreateAV(ci.AVAttr{Port: 1, DLID: b.Attr.LID})
		require.NoError(t, err)
		a.Send(ci.SendWR{Op: ci.OpSend, Flags: ci.SendSignaled, To: ci.Dest{AV: av, QPN: b.QP.Num(), QKey: qkey}})
		a.Poll(1)
		require.NoError(t, av.Destroy())
	}
	send(8)
	list := manager.traps(mad.TrapBadQKey)
	require.Len(t, list, 1)
	var d mad.TrapKey
	d.Parse(list[0].Details[:])
	assert.Equal(t, mad.TrapKey{LID1: uint16(a.Attr.LID), LID2: uint16(b.Attr.LID), Key: 8, QP1: uint32(a.QP.Num()),
		QP2: uint32(b.QP.Num())}, d)
	assert.Equal(t, uint16(b.Attr.LID), list[0].IssuerLID)
	h8 := port(t, f, "h8", 1)
	assert.EqualValues(t, 1, h8.Info().QKeyViolations)
	for range 2 { // the second one changes nothing
		require.NoError(t, b.CA.Modify(1, ci.PortFieldSystemGUID, ci.PortModify{SystemGUID: 77}))
	}
	list = manager.traps(mad.TrapSystemGUIDChanged)
	require.Len(t, list, 1)
	var g mad.TrapSystemGUID
	g.Parse(list[0].Details[:])
	assert.Equal(t, mad.TrapSystemGUID{LID: uint16(b.Attr.LID), GUID: 77}, g)
	assert.EqualValues(t, 77, h8.NodeInfo().SystemGUID)
	set(h8, 0x8001)
	send(7)
	list = manager.traps(mad.TrapBadPKey)
	require.Len(t, list, 1)
	d.Parse(list[0].Details[:])
	assert.EqualValues(t, 0xffff, d.Key)
	assert.EqualValues(t, 1, h8.Info().PKeyViolations)
	sw := port(t, f, "s1-1", int(portTo(t, f, "s1-1", "h2")))
	require.NoError(t, sw.node.setPortInfo(sw.num, func(i *mad.PortInfo) { i.Enforce = 8 }))
	set(sw, 0x8001)
	send(7)
	list = manager.traps(mad.TrapSwitchBadPKey)
	require.Len(t, list, 1)
	var s mad.TrapSwitchPKey
	s.Parse(list[0].Details[:])
	swLID, _ := port(t, f, "s1-1", 0).LID()
	assert.EqualValues(t, swLID, s.SwitchLID)
	assert.Equal(t, sw.num, s.Port)
	assert.EqualValues(t, b.QP.Num(), s.QP2)
}

// Packets beyond the MTU of a link, and those without a lane, are dropped by the switch.
func TestLimits(t *testing.T) {
	f := twoLevels(t)
	require.NoError(t, f.Configure())
	out := port(t, f, "s1-1", int(portTo(t, f, "s1-1", "h2")))
	in := port(t, f, "s1-1", int(portTo(t, f, "s1-1", "h1")))
	require.NoError(t, out.node.setPortInfo(out.num, func(i *mad.PortInfo) { i.NeighborMTU = uint8(ci.MTU1024) }))
	x := parcel{largest: 1025, packets: 1}
	assert.False(t, out.node.switchOver(in, out, &x))
	x.largest = 1024
	assert.True(t, out.node.switchOver(in, out, &x))
	table := mad.SLtoVL{3: 15, 4: 7}
	var data [mad.SMPDataLen]byte
	table.Put(data[:])
	require.NoError(t, out.node.set(0, mad.AttrSLtoVL, uint32(in.num)<<8|uint32(out.num), &data))
	x.sl = 3
	assert.False(t, out.node.switchOver(in, out, &x))
	x.sl = 4
	assert.True(t, out.node.switchOver(in, out, &x))
	require.NoError(t, out.node.setPortInfo(out.num, func(i *mad.PortInfo) { i.OperationalVLs = 3 })) // 4 lanes
	assert.False(t, out.node.switchOver(in, out, &x))
	assert.Equal(t, map[string]uint64{"fabric_drop_mtu": 1, "fabric_drop_lane": 2}, drops(f))
}

// Any bytes as a MAD on any port and QP are dropped or answered, without a panic and without a loop.
func FuzzSend(f *testing.F) {
	f.Add(directed(mad.AttrNodeInfo, 0, 1, 2)[:], uint8(0), uint16(0xffff))
	f.Add(get(mad.AttrPortInfo, 1)[:], uint8(0), uint16(9))
	f.Add(get(mad.AttrPortCounters, 1)[:], uint8(1), uint16(1))
	g, err := topology.FatTree{Down: []int{2, 2}, Up: []int{1, 1}}.Generate()
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, b []byte, qp uint8, dlid uint16) {
		fab, err := New(g, Config{Clock: clock.NewVirtual(0)}) // of its own: coverage depends on the input alone
		require.NoError(t, err)
		defer fab.Close()
		require.NoError(t, fab.Configure())
		var m ci.MAD
		copy(m[:], b)
		var r recorder
		h := port(t, fab, "h1", 1)
		h.Attach(&r)
		_ = h.Send(&Datagram{DLID: ci.LID(dlid), SrcQP: ci.QPN(qp & 1), DestQP: ci.QPN(qp & 1), MAD: &m})
		require.LessOrEqual(t, len(r.got), 20)
	})
}

// A node leaves a running fabric, whose other ports see their links go down, and comes back with the same cables.
func TestRemoveAndAdd(t *testing.T) {
	f := twoLevels(t)
	require.NoError(t, f.Configure())
	spine := port(t, f, "s2-1", 0).node
	a, b := port(t, f, "s1-1", int(portTo(t, f, "s1-1", "s2-1"))), port(t, f, "s1-2", int(portTo(t, f, "s1-2", "s2-1")))
	require.NoError(t, f.RemoveNode("s2-1"))
	require.Error(t, f.RemoveNode("s2-1"))
	assert.Equal(t, ci.PortDown, a.State())
	assert.Equal(t, ci.PortDown, b.State())
	assert.Equal(t, []string{"s1-1", "s1-2", "s2-2"}, f.Names(topology.Switch))
	require.Error(t, a.SetLink(true))
	cables := []Cable{{Port: 1, Peer: "s1-1", PeerPort: int(a.num)}, {Port: 2, Peer: "s1-2", PeerPort: int(b.num)}}
	require.ErrorContains(t, f.AddNode(spine.desc, cables[0], cables[0]), "one of the ports has a cable")
	require.ErrorContains(t, f.AddNode(spine.desc, Cable{Port: 9, Peer: "s1-1", PeerPort: 1}), "want ports from 1 on")
	require.ErrorContains(t, f.AddNode(topology.Node{}), "kind 0")
	other := spine.desc
	other.GUID = port(t, f, "s2-2", 0).node.desc.GUID
	require.ErrorContains(t, f.AddNode(other), `node "s2-2" has the GUID`)
	require.NoError(t, f.AddNode(spine.desc, cables...))
	assert.Equal(t, ci.PortInit, a.State())
	require.NoError(t, f.Configure())
	path, err := f.Trace("h1", mustLID(port(t, f, "s2-1", 0)))
	require.NoError(t, err)
	assert.Equal(t, "s2-1", path[len(path)-1].Node())
	s := f.Status()
	require.Len(t, s.Nodes, 12)
	for _, n := range s.Nodes {
		for _, p := range n.Ports {
			assert.NotEmpty(t, p.Peer, n.ID)
			assert.Equal(t, "4xQDR", p.Rate)
		}
	}
}

func mustLID(p *Port) ci.LID {
	lid, _ := p.LID()
	return lid
}
