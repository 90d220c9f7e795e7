package fabric

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/fabric/topology"
	"ciddk/internal/linktest"
	"ciddk/mad"
)

// pair is two adapters at a switch.
func pair(t testing.TB, c Config) *Fabric {
	t.Helper()
	g, err := topology.FatTree{Down: []int{2}, Up: []int{1}}.Generate()
	require.NoError(t, err)
	f, err := New(g, c)
	require.NoError(t, err)
	t.Cleanup(f.Close)
	return f
}

// setLanes writes the SLtoVL table of an adapter.
func setLanes(t testing.TB, p *Port, table mad.SLtoVL) {
	t.Helper()
	var data [mad.SMPDataLen]byte
	table.Put(data[:])
	require.NoError(t, p.node.set(p.num, mad.AttrSLtoVL, 0, &data))
}

// The MTUs of an adapter's port follow SLtoVL, the operational lanes and NeighborMTU, and are never above the latter,
// which is the MTU that managers see.
func TestLaneMTUs(t *testing.T) {
	f := pair(t, Config{LaneMTUs: []ci.MTU{0, ci.MTU1024, ci.MTU256}})
	require.NoError(t, f.Configure())
	p := port(t, f, "h1", 1)
	ca, err := f.CAPort("h1", 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, ca.Close()) }()
	attr := func() ci.PortAttr { return ca.Attr() }
	of := func(sl ci.SL) ci.MTU { a := attr(); return a.MTUOf(sl) }
	setLanes(t, p, mad.SLtoVL{1: 1, 2: 2, 3: 15, 4: 7})
	assert.Equal(t, ci.MTU4096, attr().MTU)
	assert.EqualValues(t, ci.MTU4096, p.Info().NeighborMTU)
	assert.Len(t, attr().MTUs, 16)
	for sl, want := range []ci.MTU{ci.MTU4096, ci.MTU1024, ci.MTU256, ci.MTU4096, ci.MTU4096} {
		assert.Equal(t, want, of(ci.SL(sl)), "service level %d", sl)
	}
	setLanes(t, p, mad.SLtoVL{1: 2})
	assert.Equal(t, ci.MTU256, of(1))
	require.NoError(t, p.node.setPortInfo(1, func(i *mad.PortInfo) { i.NeighborMTU = uint8(ci.MTU512) }))
	assert.Equal(t, []ci.MTU{ci.MTU512, ci.MTU256, ci.MTU512}, attr().MTUs[:3])
	require.NoError(t, p.node.setPortInfo(1, func(i *mad.PortInfo) { i.OperationalVLs = 1 }))
	assert.Equal(t, ci.MTU512, of(1), "the lane does not operate")
	require.NoError(t, p.SetLaneMTU(1, 0))
	require.NoError(t, p.SetLaneMTU(2, 0))
	assert.Empty(t, attr().MTUs)
	require.Error(t, p.SetLaneMTU(15, ci.MTU256))
	require.Error(t, p.SetLaneMTU(0, ci.MTU4096+1))
	for _, c := range []Config{{LaneMTUs: make([]ci.MTU, 16)}, {LaneMTUs: []ci.MTU{6}}} {
		_, err := New(&topology.Topology{}, c)
		require.ErrorContains(t, err, "lanes")
	}
}

// A connection takes no MTU above that of its service level, and a datagram above it fails, from the change of the
// table on.
func TestLaneMTUOfQPs(t *testing.T) {
	f := pair(t, Config{LaneMTUs: []ci.MTU{0, ci.MTU1024}})
	require.NoError(t, f.Configure())
	a, b := adapter(t, f, "h1", ci.RC), adapter(t, f, "h2", ci.UD)
	require.NoError(t, a.QP.Modify(ci.QPFieldsInit, ci.QPAttr{State: ci.QPInit, Port: 1}))
	to := ci.QPAttr{State: ci.QPRTR, Primary: ci.Path{AV: a.AV(b)}, MTU: ci.MTU2048, DestNum: 9, MinRNRTimer: 1}
	to.Primary.AV.SL = 1
	setLanes(t, port(t, f, "h1", 1), mad.SLtoVL{1: 1})
	setLanes(t, port(t, f, "h2", 1), mad.SLtoVL{1: 1})
	err := a.QP.Modify(ci.QPFieldsRTR, to)
	require.ErrorIs(t, err, ci.InvalidParameter)
	require.ErrorContains(t, err, "service level 1")
	alternate := to
	alternate.Primary.AV.SL, alternate.Alternate = 0, ci.Path{AV: to.Primary.AV}
	err = a.QP.Modify(ci.QPFieldsRTR|ci.QPFieldAlternate, alternate)
	require.ErrorIs(t, err, ci.InvalidParameter)
	require.ErrorContains(t, err, "alternate path")
	to.MTU = ci.MTU1024
	require.NoError(t, a.QP.Modify(ci.QPFieldsRTR, to))

	openUD(t, b)
	send := func(sl ci.SL, n int) ci.WCStatus {
		t.Helper()
		av, err := b.PD.CreateAV(ci.AVAttr{Port: 1, DLID: a.Attr.LID, SL: sl})
		require.NoError(t, err)
		b.Send(ci.SendWR{Op: ci.OpSend, Flags: ci.SendSignaled, SGL: b.SGE(0, n), To: ci.Dest{AV: av, QPN: 9, QKey: 7}})
		var wc [1]ci.WC
		require.Equal(t, 1, poll(t, b, wc[:]))
		require.NoError(t, av.Destroy())
		return wc[0].Status
	}
	again := func() {
		require.NoError(t, b.QP.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPReset}))
		openUD(t, b)
	}
	assert.Equal(t, ci.WCSuccess, send(0, 4096))
	assert.Equal(t, ci.WCSuccess, send(1, 1024))
	assert.Equal(t, ci.WCLocalLenErr, send(1, 1025))
	again()
	setLanes(t, port(t, f, "h2", 1), mad.SLtoVL{0: 1}) // the QP is not modified meanwhile
	assert.Equal(t, ci.WCSuccess, send(1, 1025))
	assert.Equal(t, ci.WCLocalLenErr, send(0, 1025))
	require.NoError(t, port(t, f, "h2", 1).SetLaneMTU(1, ci.MTU2048))
	again()
	assert.Equal(t, ci.WCSuccess, send(0, 1025))
	assert.Equal(t, ci.WCLocalLenErr, send(0, 2049))
}

func poll(t testing.TB, n *linktest.Node, wc []ci.WC) int {
	t.Helper()
	k, err := n.CQ.Poll(wc)
	require.NoError(t, err)
	return k
}

func connectUC(t testing.TB, n, to *linktest.Node) {
	t.Helper()
	require.NoError(t, n.QP.Modify(ci.QPFieldsInit, ci.QPAttr{State: ci.QPInit, Port: 1}))
	require.NoError(t, n.QP.Modify(ci.QPFieldsUCRTR, ci.QPAttr{State: ci.QPRTR, Primary: ci.Path{AV: n.AV(to)},
		MTU: ci.MTU4096, DestNum: to.QP.Num()}))
	require.NoError(t, n.QP.Modify(ci.QPFieldState|ci.QPFieldSQPSN, ci.QPAttr{State: ci.QPRTS}))
}

// A packet above the MTU of its lane is dropped where it would leave: at the adapter, and at a switch.
func TestLaneMTUDrops(t *testing.T) {
	f := pair(t, Config{})
	require.NoError(t, f.Configure())
	a, b := adapter(t, f, "h1", ci.UC), adapter(t, f, "h2", ci.UC)
	connectUC(t, a, b)
	connectUC(t, b, a)
	b.Recv(ci.RecvWR{SGL: b.SGE(0, 4096)})
	send := func() {
		a.Send(ci.SendWR{Op: ci.OpSend, Flags: ci.SendSignaled, SGL: a.SGE(0, 2000)})
		a.Poll(1)
	}
	require.NoError(t, port(t, f, "h1", 1).SetLaneMTU(0, ci.MTU1024)) // the connection keeps its own
	send()
	assert.EqualValues(t, 1, drops(f)["fabric_drop_mtu"])
	assert.EqualValues(t, 1, port(t, f, "h1", 1).count.xmitDiscards.Load())
	require.NoError(t, port(t, f, "h1", 1).SetLaneMTU(0, 0))
	out := port(t, f, "h2", 1).peer.Load()
	require.NoError(t, out.SetLaneMTU(0, ci.MTU1024))
	send()
	assert.EqualValues(t, 2, drops(f)["fabric_drop_mtu"])
	assert.EqualValues(t, 1, out.count.xmitDiscards.Load())
	require.NoError(t, out.SetLaneMTU(0, ci.MTU2048))
	send()
	b.Poll(1)
}
