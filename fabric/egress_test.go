package fabric

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/internal/linktest"
	"ciddk/mad"
	"ciddk/rvt"
	"ciddk/wire"
)

// timedPair is two adapters at a switch, in virtual time.
func timedPair(t testing.TB) (*Fabric, *clock.Virtual) {
	t.Helper()
	k := clock.NewVirtual(0)
	f := pair(t, Config{Clock: k, Timing: true})
	require.NoError(t, f.Configure())
	return f, k
}

// rig is a sending and a receiving port without adapters.
type rig struct {
	t        testing.TB
	f        *Fabric
	clock    *clock.Virtual
	from     *CAPort
	to       *CAPort
	received *linktest.Collector
}

func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{t: t, received: linktest.NewCollector()}
	r.f, r.clock = timedPair(t)
	var err error
	r.from, err = r.f.CAPort("h1", 0)
	require.NoError(t, err)
	r.to, err = r.f.CAPort("h2", 0)
	require.NoError(t, err)
	require.NoError(t, linktest.StartAt(r.from, linktest.NewCollector(), r.clock))
	require.NoError(t, linktest.StartAt(r.to, r.received, r.clock))
	t.Cleanup(func() {
		require.NoError(t, r.from.Close())
		require.NoError(t, r.to.Close())
	})
	return r
}

// send sends n packets of a QP on a service level, one after the other, with PSNs from 0 on.
func (r *rig) send(service wire.Service, local ci.QPN, sl ci.SL, n int) {
	r.t.Helper()
	flow := rvt.Flow{Local: local, Remote: 9}
	if service == wire.UD {
		flow = rvt.Flow{Datagram: true}
	}
	route, err := r.from.Route(&ci.AVAttr{DLID: r.to.Attr().LID, SL: sl}, flow)
	require.NoError(r.t, err)
	for i := range n {
		p := rvt.Packet{Service: service, Op: wire.OpSend, Start: true, End: true, PKey: 0xffff, DestQP: local,
			PSN: ci.PSN(i), N: 1, MTU: 1024, Len: 1024, Payload: [][]byte{make([]byte, 1024)}, Route: route}
		if service == wire.UD {
			p.SrcQP = local
		}
		r.from.Send([]rvt.Packet{p})
	}
}

// run runs until nothing happens any more, and returns the QPs of the packets that have arrived, in their order.
func (r *rig) run() (qps []ci.QPN) {
	for r.clock.Step() {
	}
	for _, p := range r.received.Taken() {
		qps = append(qps, p.DestQP)
	}
	return qps
}

// What waits for the link and belongs to a QP is removed. What is on the link, and the packets of other QPs, arrive in
// order.
func TestFlushQP(t *testing.T) {
	for _, service := range []wire.Service{wire.UC, wire.UD} {
		r := newRig(t)
		r.send(service, 5, 0, 3)
		r.send(service, 6, 0, 3)
		r.send(service, 5, 0, 2)
		r.from.FlushQP(5)
		assert.Equal(t, []ci.QPN{5, 6, 6, 6}, r.run(), "the first one was on the link")
		m := map[string]uint64{}
		r.from.AddCounters(m)
		assert.EqualValues(t, 4, m["fabric_flushed_packets"])
		assert.EqualValues(t, 4, m["fabric_xmit_packets"])
		r.send(service, 5, 0, 2)
		assert.Equal(t, []ci.QPN{5, 5}, r.run())
		r.from.FlushQP(5)
		assert.Empty(t, drops(r.f))
	}
}

// Lanes take turns, and packets of a lane keep their order.
func TestLanesTakeTurns(t *testing.T) {
	r := newRig(t)
	setLanes(t, r.from.port, mad.SLtoVL{1: 1, 2: 2})
	r.send(wire.UC, 5, 1, 4)
	r.send(wire.UC, 6, 2, 3)
	r.send(wire.UC, 7, 1, 1)
	assert.Equal(t, []ci.QPN{5, 6, 5, 6, 5, 6, 5, 7}, r.run())
}

// Packets take the time of the first link one after the other, and those that wait when the port closes do not leave.
func TestLinkTime(t *testing.T) {
	r := newRig(t)
	r.send(wire.UC, 5, 0, 1)
	r.run()
	one := r.clock.Elapsed()
	start := r.clock.Elapsed()
	r.send(wire.UC, 5, 0, 11)
	r.run()
	each := (r.clock.Elapsed() - start - one) / 10
	picos := r.from.port.line.picos
	bytes := uint64(1024 + wire.LRHLen + wire.BTHLen + wire.ICRCLen)
	assert.InDelta(t, float64(bytes)*float64(picos)/1000, float64(each), float64(2*time.Nanosecond))
	r.send(wire.UC, 5, 0, 5)
	require.NoError(t, r.from.Close())
	assert.Len(t, r.run(), 1)
}

// A QP that is reset or destroyed has its packets removed from the queue of the port.
func TestFlushOfAdapter(t *testing.T) {
	f, k := timedPair(t)
	open := func(name string) *linktest.Node {
		p, err := f.CAPort(name, 0)
		require.NoError(t, err)
		c := linktest.Config(p)
		c.Clock = k
		return linktest.OpenConfig(t, ci.UC, 1<<16, c)
	}
	a, b := open("h1"), open("h2")
	h1 := port(t, f, "h1", 1)
	post := func() {
		for range 10 {
			a.Send(ci.SendWR{Op: ci.OpWrite, Flags: ci.SendSignaled, SGL: a.SGE(0, 4096),
				Remote: b.MR.Region().Remote(0)})
		}
		a.Poll(10)
	}
	connectUC(t, b, a)
	connectUC(t, a, b)
	post()
	require.NoError(t, a.QP.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPReset}))
	for k.Step() {
	}
	assert.EqualValues(t, 1, h1.count.xmitPackets.Load())
	assert.EqualValues(t, 9, a.HCA.Counters()["fabric_flushed_packets"])
	connectUC(t, a, b)
	post()
	require.NoError(t, newQP(t, a).Destroy()) // nothing of it waits
	assert.EqualValues(t, 9, a.HCA.Counters()["fabric_flushed_packets"])
	require.NoError(t, a.QP.Destroy())
	assert.EqualValues(t, 18, a.HCA.Counters()["fabric_flushed_packets"])
	a.QP = newQP(t, a) // for the node to destroy
	for k.Step() {
	}
	assert.EqualValues(t, 2, h1.count.xmitPackets.Load())
}

func newQP(t testing.TB, n *linktest.Node) ci.QP {
	t.Helper()
	q, err := n.PD.CreateQP(ci.QPCreate{Type: ci.UC, SendCQ: n.CQ, RecvCQ: n.CQ, QPCaps: ci.QPCaps{SendDepth: 1,
		RecvDepth: 1}})
	require.NoError(t, err)
	return q
}
