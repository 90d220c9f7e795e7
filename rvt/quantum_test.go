package rvt

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/wire"
)

// A meter is the other end of a link. It counts what each QP of an HCA sends, in the order of the Sends, and keeps no
// payload.
type meter struct {
	*linkPort
	sent []portion
}

// A portion is a packet or train that a QP has sent, with its destination QP.
type portion struct {
	dest    ci.QPN
	op      wire.Op
	packets int
	bytes   int
	last    ci.PSN
}

func (m *meter) Deliver(pkts []Packet, _, _ bool) {
	for i := range pkts {
		p := &pkts[i]
		m.sent = append(m.sent, portion{p.DestQP, p.Op, int(p.N), int(p.Len), psnAdd(p.PSN, p.N-1)})
	}
}
func (m *meter) FlushAcks()             {}
func (m *meter) PortEvent(ci.EventType) {}
func (m *meter) Count(Counter, int)     {}

// take returns the portions since the last take.
func (m *meter) take() []portion {
	s := m.sent
	m.sent = nil
	return s
}

// sum returns the totals of the portions for dest.
func sum(list []portion, dest ci.QPN) (packets, bytes int) {
	for _, p := range list {
		if p.dest == dest {
			packets += p.packets
			bytes += p.bytes
		}
	}
	return packets, bytes
}

const (
	busyPeer  = ci.QPN(0x1000)
	otherPeer = ci.QPN(0x2000)
)

// A sharedPort is an HCA with two QPs on one port: a busy one, and another whose work must not wait for it.
type sharedPort struct {
	*side
	m     *meter
	clock *fakeClock
	other ci.QP
	big   ci.MR // 256 MiB, never touched
}

const bigSize = 256 << 20

func newSharedPort(t *testing.T, hints Hints, rings Rings, typ ci.QPType, depth int) *sharedPort {
	l := &wireLink{mtu: ci.MTU4096, hints: hints}
	m := &meter{linkPort: l.port()}
	m.rx = m
	x := &sharedPort{m: m, clock: newClock()}
	x.side = newSideOn(t, []*linkPort{l.port()}, 0xa, x.clock, rings, typ, func(c *ci.QPCreate) {
		c.SendDepth,
			c.RecvDepth = depth, depth
	})
	var err error
	x.other, err = x.pd.CreateQP(ci.QPCreate{SendCQ: x.cq, RecvCQ: x.cq, QPCaps: ci.QPCaps{SendDepth: 8, RecvDepth: 8,
		SendSGE: 1, RecvSGE: 1}})
	require.NoError(t, err)
	x.big, err = x.pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(make([]byte, bigSize)), Access: allRemote})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, x.other.Destroy()); require.NoError(t, x.big.Destroy()) })
	a := x.attrTo(busyPeer, m.lid)
	a.MTU = ci.MTU4096
	x.toRTS(a)
	o := *x.side
	o.qp = x.other
	o.toRTS(x.attrTo(otherPeer, m.lid))
	return x
}

// deliver delivers packets to a QP of the HCA in one call.
func (x *sharedPort) deliver(to ci.QP, pkts ...Packet) {
	for i := range pkts {
		p := &pkts[i]
		p.Service, p.DestQP, p.PKey = wire.RC, to.Num(), 0xffff
		p.MigReq, p.Src, p.N = true, Addr{LID: x.m.lid}, 1
	}
	receiverOf(x.hca, 0).Deliver(pkts, true, false)
}

// readRequest returns a packet of 60 bytes that requests n bytes.
func (x *sharedPort) readRequest(psn ci.PSN, n uint32) Packet {
	r := x.big.Region()
	return Packet{Op: wire.OpReadRequest, Start: true, End: true, Ack: true, PSN: psn, VA: r.Remote(0).Addr,
		RKey: r.RKey, DMALen: n}
}

// oneQuantum checks what the busy QP has sent in one turn against the quantum.
func (x *sharedPort) oneQuantum(list []portion) {
	x.t.Helper()
	packets, bytes := sum(list, busyPeer)
	require.LessOrEqual(x.t, packets, turnPackets)
	require.LessOrEqual(x.t, bytes, turnBytes)
}

// longRing is a send ring whose producer never stops.
type longRing struct {
	plainSend
	work Work
}

func (r *longRing) Next(w *Work) bool {
	sgl := w.SGL
	*w = r.work
	w.SGL = append(sgl[:0], r.work.SGL...)
	return true
}
func (r *longRing) Retire(int) {}
func (r *longRing) Len() int   { return 1 }

type longRings struct {
	plainRings
	ring *longRing
}

func (r longRings) SendRing(depth, _, _ int, _ *ci.UserBuffer) (SendRing, error) {
	if depth == 8 { // of the other QP
		return &plainSend{depth: depth}, nil
	}
	r.ring.depth = depth
	return r.ring, nil
}

// A load keeps a QP busy.
type load struct {
	name  string
	typ   ci.QPType
	hints Hints
	rings Rings
	depth int
	start func(x *sharedPort)
	// totals of packets and bytes that the load causes; 0: it never ends
	packets, bytes int
}

var lossless = Hints{MaxTrain: 1 << 20, Lossless: true}

func loads() []load {
	post := func(n int, wr func(x *sharedPort) ci.SendWR) func(*sharedPort) {
		return func(x *sharedPort) {
			wrs := make([]ci.SendWR, n)
			for i := range wrs {
				wrs[i] = wr(x)
			}
			x.send(wrs...)
		}
	}
	write := func(x *sharedPort) ci.SendWR {
		return ci.SendWR{Op: ci.OpWrite, SGL: []ci.SGE{x.big.Region().SGE(0, bigSize)}}
	}
	small := func(x *sharedPort) ci.SendWR { return ci.SendWR{SGL: x.sge(0, 64)} }
	ring := &longRing{work: Work{Op: ci.OpSend, Inline: []byte("x"), IsInl: true}}
	nops := &longRing{work: Work{Op: ci.OpNop}}
	const all = bigSize / 4096
	return []load{
		{"READ of 256 MiB", ci.RC, lossless, plainRings{}, 16,
			func(x *sharedPort) { x.deliver(x.qp, x.readRequest(psn0, bigSize)) }, all, bigSize},
		{"READ of 256 MiB, single packets", ci.RC, Hints{}, plainRings{}, 16,
			func(x *sharedPort) { x.deliver(x.qp, x.readRequest(psn0, bigSize)) }, all, bigSize},
		{"four READs", ci.RC, lossless, plainRings{}, 16, func(x *sharedPort) {
			for i := range 4 {
				x.deliver(x.qp, x.readRequest(psnAdd(psn0, uint32(i)*all/4), bigSize/4))
			}
		}, all, bigSize},
		{"WRITE of 256 MiB", ci.RC, lossless, plainRings{}, 16, post(1, write), all, bigSize},
		{"UC WRITE of 256 MiB", ci.UC, lossless, plainRings{}, 16, post(1, write), all, bigSize},
		{"4000 SENDs", ci.RC, lossless, plainRings{}, 4000, post(4000, small), 4000, 4000 * 64},
		{"4000 datagrams", ci.UD, lossless, plainRings{}, 4000, func(x *sharedPort) {
			av, err := x.pd.CreateAV(ci.AVAttr{Port: 1, DLID: x.m.lid})
			require.NoError(x.t, err)
			x.t.Cleanup(func() { require.NoError(x.t, av.Destroy()) })
			post(4000, func(x *sharedPort) ci.SendWR {
				return ci.SendWR{SGL: x.sge(0, 64), To: ci.Dest{AV: av, QPN: busyPeer, QKey: 0x1234}}
			})(x)
		}, 4000, 4000 * 64},
		{"a ring that its producer keeps filling", ci.RC, lossless, longRings{ring: ring}, 64,
			func(x *sharedPort) { x.qp.(*QP).kick() }, 0, 0},
		{"the same with local operations", ci.RC, lossless, longRings{ring: nops}, 64,
			func(x *sharedPort) { x.qp.(*QP).kick() }, 0, 0},
	}
}

// TestQuantum checks for each load that one turn of the busy QP handles a quantum. Another QP of the port sends and
// receives before the next turn, and QPs that both have work left take turns.
func TestQuantum(t *testing.T) {
	for _, l := range loads() {
		t.Run(l.name, func(t *testing.T) {
			x := newSharedPort(t, l.hints, l.rings, l.typ, l.depth)
			l.start(x)
			first := x.m.take()
			x.oneQuantum(first)
			packets, bytes := sum(first, busyPeer)

			n, err := x.other.PostSend([]ci.SendWR{{SGL: x.sge(0, 64)}})
			require.NoError(t, err)
			require.Equal(t, 1, n)
			list := x.m.take()
			require.Len(t, list, 1, "the other QP's SEND leaves before anything else of the busy one")
			require.Equal(t, otherPeer, list[0].dest)
			x.recvOther()
			x.deliver(x.other, Packet{Op: wire.OpSend, Start: true, End: true, Ack: true, PSN: psn0, Len: 1,
				Payload: [][]byte{{1}}})
			list = x.m.take()
			require.Len(t, list, 1, "so does its acknowledgement")
			require.Equal(t, wire.OpAcknowledge, list[0].op)

			// Both have work left now.
			x.deliver(x.other, x.readRequest(psnAdd(psn0, 1), 8*turnPackets*1024))
			turns := 1
			p, b := sum(x.m.sent, busyPeer)
			require.Zero(t, p+b)
			mine, _ := sum(x.m.take(), otherPeer)
			for mine < 8*turnPackets {
				require.True(t, x.clock.Step())
				list = x.m.take()
				x.oneQuantum(list)
				k, _ := sum(list, otherPeer)
				require.NotZero(t, k, "each round has a turn of every QP that waits")
				mine += k
				turns++
				p, b = sum(list, busyPeer)
				packets += p
				bytes += b
			}
			require.Equal(t, 8, turns)
			if l.packets == 0 {
				x.toState(ci.QPReset)
				return
			}
			for packets < l.packets {
				require.True(t, x.clock.Step(), "%d of %d packets", packets, l.packets)
				list = x.m.take()
				x.oneQuantum(list)
				p, b = sum(list, busyPeer)
				require.NotZero(t, p)
				packets += p
				bytes += b
			}
			require.Equal(t, l.bytes, bytes)
			require.Equal(t, l.packets, packets)
		})
	}
}

// recvOther posts a receive to the other QP.
func (x *sharedPort) recvOther() {
	n, err := x.other.PostRecv([]ci.RecvWR{{SGL: x.sge(0, 64)}})
	require.NoError(x.t, err)
	require.Equal(x.t, 1, n)
}

// TestQuantumOfRetry checks that retransmissions after a timeout are sent in turns, too.
func TestQuantumOfRetry(t *testing.T) {
	x := newSharedPort(t, lossless, plainRings{}, ci.RC, 16)
	x.send(ci.SendWR{Op: ci.OpWrite, SGL: []ci.SGE{x.big.Region().SGE(0, 16<<20)}})
	x.clock.Advance(time.Millisecond)
	packets, _ := sum(x.m.take(), busyPeer)
	require.Equal(t, 16<<20/4096, packets)
	for x.hca.Counters()["retries"] == 0 {
		require.True(t, x.clock.Step())
	}
	again := 0
	for again < packets {
		list := x.m.take()
		x.oneQuantum(list)
		p, _ := sum(list, busyPeer)
		require.NotZero(t, p)
		again += p
		if again < packets {
			require.True(t, x.clock.Step())
		}
	}
	require.Equal(t, packets, again)
}

// TestQuantumOfBatch checks that the QPs of one batch of packets share a quantum for their responses.
func TestQuantumOfBatch(t *testing.T) {
	x := newSharedPort(t, lossless, plainRings{}, ci.RC, 16)
	batch := []Packet{x.readRequest(psn0, bigSize), x.readRequest(psn0, bigSize/4)}
	for i, q := range []ci.QP{x.qp, x.other} {
		p := &batch[i]
		p.Service, p.DestQP, p.PKey = wire.RC, q.Num(), 0xffff
		p.MigReq, p.Src, p.N = true, Addr{LID: x.m.lid}, 1
	}
	receiverOf(x.hca, 0).Deliver(batch, true, false)
	list := x.m.take()
	p1, b1 := sum(list, busyPeer)
	p2, b2 := sum(list, otherPeer)
	require.LessOrEqual(t, p1+p2, turnPackets)
	require.LessOrEqual(t, b1+b2, turnBytes)
	require.True(t, x.clock.Step())
	list = x.m.take()
	p1, _ = sum(list, busyPeer)
	p2, _ = sum(list, otherPeer)
	require.Equal(t, turnPackets, p1)
	require.Equal(t, turnPackets, p2)
}

// TestQuantumBothWays checks that a QP that sends without end still responds to READs, and the reverse.
func TestQuantumBothWays(t *testing.T) {
	ring := &longRing{work: Work{Op: ci.OpSend, Inline: []byte("x"), IsInl: true}}
	x := newSharedPort(t, lossless, longRings{ring: ring}, ci.RC, 64)
	x.qp.(*QP).kick()
	x.deliver(x.qp, x.readRequest(psn0, bigSize))
	x.m.take()
	// The window of 64 requests is full after the first turn; acknowledgements open it again.
	for range 20 {
		last := psn0
		for _, p := range x.m.sent {
			if p.op == wire.OpSend {
				last = p.last
			}
		}
		x.m.take()
		x.deliver(x.qp, Packet{Op: wire.OpAcknowledge, Start: true, End: true, Syndrome: wire.ACK(0), PSN: last})
		require.True(t, x.clock.Step())
		count := map[wire.Op]int{}
		for _, p := range x.m.sent {
			count[p.op] += p.packets
		}
		require.NotZero(t, count[wire.OpReadResponse])
		require.NotZero(t, count[wire.OpSend])
		require.LessOrEqual(t, count[wire.OpReadResponse]+count[wire.OpSend], turnPackets)
	}
	x.toState(ci.QPReset)
}

// TestQuantumOfFlush checks that a long queue is flushed in turns, in order, and completely.
func TestQuantumOfFlush(t *testing.T) {
	const depth = 3000
	x := newSharedPort(t, lossless, plainRings{}, ci.RC, depth)
	wrs := make([]ci.RecvWR, depth)
	for i := range wrs {
		wrs[i].ID = uint64(i)
	}
	x.recv(wrs...)
	x.toState(ci.QPError)
	seen := 0
	for seen < depth {
		n, err := x.qp.(*QP).recvCQ.Peek()
		require.NoError(t, err)
		require.LessOrEqual(t, n, 3*turnPackets, "by the transition and the turn behind it")
		wcs := make([]ci.WC, 1024)
		n, err = x.cq.Poll(wcs)
		require.NoError(t, err)
		for _, wc := range wcs[:n] {
			require.EqualValues(t, seen, wc.ID)
			require.Equal(t, ci.WCFlushErr, wc.Status)
			seen++
		}
	}
	require.Empty(t, x.poll())
}

// TestFlushEndsBeforeRTS checks that a datagram QP that goes from SQError back to RTS completes the flush first, so
// that no earlier request is sent.
func TestFlushEndsBeforeRTS(t *testing.T) {
	const depth = 2000
	x := newSharedPort(t, lossless, plainRings{}, ci.UD, depth)
	wrs := make([]ci.SendWR, depth)
	for i := range wrs {
		wrs[i] = ci.SendWR{ID: uint64(i), SGL: x.sge(0, 8)}
	}
	av, err := x.pd.CreateAV(ci.AVAttr{Port: 1, DLID: x.m.lid})
	require.NoError(t, err)
	for i := range wrs {
		wrs[i].To = ci.Dest{AV: av, QPN: busyPeer}
	}
	require.NoError(t, av.Destroy())
	_, err = x.qp.PostSend(wrs[:1])
	require.Equal(t, ci.InvalidAVHandle, ci.StatusOf(err))
	av, err = x.pd.CreateAV(ci.AVAttr{Port: 1, DLID: x.m.lid})
	require.NoError(t, err)
	for i := range wrs {
		wrs[i].To.AV = av
	}
	wrs[0].SGL = []ci.SGE{{LKey: 1, Length: 8}}
	x.send(wrs...)
	require.Equal(t, ci.QPSQError, x.state())
	require.NoError(t, x.qp.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPRTS}))
	x.clock.Advance(0)
	require.Empty(t, x.m.take())
	require.NoError(t, av.Destroy())
}

// TestFatalNakBehindAnswers checks that a bad request behind a long READ is rejected when the READ has been answered.
func TestFatalNakBehindAnswers(t *testing.T) {
	x := newSharedPort(t, lossless, plainRings{}, ci.RC, 16)
	bad := x.readRequest(psnAdd(psn0, bigSize/4096), 64)
	bad.RKey ^= 1
	x.deliver(x.qp, x.readRequest(psn0, bigSize), bad)
	require.Equal(t, ci.QPRTS, x.state())
	x.deliver(x.qp, Packet{Op: wire.OpSend, Start: true, End: true, Ack: true, PSN: psnAdd(bad.PSN, 1), Len: 1,
		Payload: [][]byte{{1}}})
	require.Equal(t, ci.EventWQAccessError, (<-x.events).Type)
	for x.state() == ci.QPRTS {
		require.True(t, x.clock.Step())
	}
	list := x.m.take()
	packets, bytes := sum(list, busyPeer)
	require.Equal(t, bigSize, bytes)
	require.Equal(t, bigSize/4096+1, packets)
	require.Equal(t, portion{busyPeer, wire.OpAcknowledge, 1, 0, bad.PSN}, list[len(list)-1])
	require.Equal(t, ci.QPError, x.state())
}

// TestBurstOfUC checks that on a link without flow control a UC message is sent in bursts of the window.
func TestBurstOfUC(t *testing.T) {
	const window, packets = 64 << 10, 12
	for _, h := range []Hints{{MaxTrain: 16 << 10, Window: window}, {MaxTrain: 16 << 10, Window: window,
		Packets: packets}} {
		x := newSharedPort(t, h, plainRings{}, ci.UC, 16)
		x.send(ci.SendWR{ID: 1, Flags: ci.SendSignaled, Op: ci.OpWrite, SGL: []ci.SGE{x.big.Region().SGE(0, 1<<20)}})
		start, total := x.clock.Elapsed(), 0
		for total < 1<<20 {
			p, b := sum(x.m.take(), busyPeer)
			require.LessOrEqual(t, b, window)
			if h.Packets != 0 {
				require.LessOrEqual(t, p, packets)
			}
			if total += b; total < 1<<20 {
				require.True(t, x.clock.Step())
			}
		}
		require.Equal(t, 1<<20, total)
		took := x.clock.Elapsed() - start
		require.GreaterOrEqual(t, took, time.Duration(1<<20-window))
		require.Less(t, took, 10*time.Millisecond)
		require.Equal(t, ci.WCSuccess, x.onlyWC().Status)
	}
}

// TestQuantumOfInbox checks that a turn takes a quantum from the inbox, in order.
func TestQuantumOfInbox(t *testing.T) {
	x := newSharedPort(t, lossless, plainRings{}, ci.RC, 16)
	q := x.qp.(*QP)
	q.mu.Lock()
	const n = 600
	r := x.mr.Region()
	for i := range n {
		p := Packet{Op: wire.OpWrite, Start: true, End: true, Ack: true, PSN: psnAdd(psn0, uint32(i)),
			VA: r.Remote(0).Addr, RKey: r.RKey, DMALen: 1,
			Len: 1, Payload: [][]byte{{byte(i)}}}
		p.Service, p.DestQP, p.PKey = wire.RC, q.num, 0xffff
		p.MigReq, p.Src, p.N = true, Addr{LID: x.m.lid}, 1
		receiverOf(x.hca, 0).Deliver([]Packet{p}, false, false)
	}
	run := newTurn(&q.endpoint)
	for left := n; left > 0; {
		require.Len(t, q.inbox.packets, left)
		q.pending.Store(false)
		q.readInbox(run)
		left -= min(left, turnPackets)
		require.Equal(t, left > 0, q.pending.Load())
		require.Equal(t, psnAdd(psn0, uint32(n-left)), q.resp.psn)
	}
	run.finish()
	run.free()
	require.Zero(t, q.inbox.bytes)
	q.unlock()
}
