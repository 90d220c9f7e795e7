package rvt

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
)

// An exchange has one operation of each kind, at sizes around the MTU (256 here), and their expected results.
type exchange struct {
	a, b *side
	wcA  []ci.WC
	wcB  []ci.WC
	rng  *rand.Rand
}

const (
	xMTU     = 256
	xCounter = 0x8000  // at b: the word for atomics
	xOld     = 0x9000  // at a: results of atomics
	xTarget  = 0x10000 // at b: RDMA
	xRead    = 0x20000 // at a: destinations of READs
	xRecv    = 0x30000 // at b: receive buffers, 4096 apart
)

func newExchange(a, b *side) *exchange {
	x := &exchange{a: a, b: b, rng: rand.New(rand.NewPCG(1, 2))}
	for i := range a.buf[:0x8000] {
		a.buf[i] = byte(x.rng.Uint32())
	}
	for i := range b.buf[xTarget:xRead] {
		b.buf[xTarget+i] = byte(x.rng.Uint32())
	}
	binary.NativeEndian.PutUint64(b.buf[xCounter:], 100)
	return x
}

// post queues all operations. Offsets in a's buffer below 0x8000 are sources.
func (x *exchange) post() {
	a, b := x.a, x.b
	for i := range 5 {
		b.recv(ci.RecvWR{ID: uint64(100 + i), SGL: []ci.SGE{b.sge(xRecv+4096*i, 100)[0], b.sge(xRecv+4096*i+100, 0)[0],
			b.sge(xRecv+4096*i+100, 3000)[0]}})
	}
	r := b.mr.Region()
	sg := ci.SendSignaled
	a.send(
		ci.SendWR{ID: 1, Op: ci.OpSend, Flags: sg | ci.SendImmediate | ci.SendSolicited, Imm: 0xa1b2c3d4,
			SGL: a.sge(0, 2*xMTU+1)},
		ci.SendWR{ID: 2, Op: ci.OpWrite, Flags: sg, SGL: []ci.SGE{a.sge(0x1000, 255)[0], a.sge(0x1100, 257)[0]},
			Remote: r.Remote(xTarget)},
		ci.SendWR{ID: 3, Op: ci.OpRead, Flags: sg, SGL: []ci.SGE{a.sge(xRead, 1)[0], a.sge(xRead+1, 3*xMTU-2)[0]},
			Remote: r.Remote(xTarget + 0x1000)},
		ci.SendWR{ID: 4, Op: ci.OpFetchAdd, Flags: sg, SGL: a.sge(xOld, 8), Remote: r.Remote(xCounter),
			Atomic: ci.Atomic{Compare: 7}},
		ci.SendWR{ID: 5, Op: ci.OpSend, Flags: sg, Inline: []byte("inline data")},
		ci.SendWR{ID: 6, Op: ci.OpRead, Flags: sg, SGL: a.sge(xRead+0x1000, xMTU), Remote: r.Remote(xTarget + 0x2000)},
		ci.SendWR{ID: 7, Op: ci.OpWrite, Flags: sg | ci.SendImmediate, Imm: 9, SGL: a.sge(0x2000, 2*xMTU),
			Remote: r.Remote(xTarget + 0x3000)},
		ci.SendWR{ID: 8, Op: ci.OpCompareSwap, Flags: sg, SGL: a.sge(xOld+8, 8), Remote: r.Remote(xCounter),
			Atomic: ci.Atomic{Compare: 107, Swap: 500}},
		ci.SendWR{ID: 9, Op: ci.OpSend, Flags: sg | ci.SendFence, SGL: a.sge(xRead, 3*xMTU-1)}, // result of the READ
		ci.SendWR{ID: 10, Op: ci.OpWrite, Flags: sg, Remote: r.Remote(xTarget)},
		ci.SendWR{ID: 11, Op: ci.OpRead, Flags: sg, Remote: r.Remote(xTarget)},
		ci.SendWR{ID: 12, Op: ci.OpSend, Flags: sg},
	)
}

func (x *exchange) done() bool {
	x.wcA = append(x.wcA, x.a.poll()...)
	x.wcB = append(x.wcB, x.b.poll()...)
	return len(x.wcA) >= 12 && len(x.wcB) >= 5
}

func (x *exchange) check(t *testing.T) {
	a, b := x.a, x.b
	require.Len(t, x.wcA, 12)
	lens := []uint32{2*xMTU + 1, 512, 3*xMTU - 1, 8, 11, xMTU, 2 * xMTU, 8, 3*xMTU - 1, 0, 0, 0}
	ops := []ci.WCOp{ci.WCSend, ci.WCWrite, ci.WCRead, ci.WCFetchAdd, ci.WCSend, ci.WCRead, ci.WCWrite,
		ci.WCCompareSwap, ci.WCSend,
		ci.WCWrite, ci.WCRead, ci.WCSend}
	for i, wc := range x.wcA {
		require.Equal(t, ci.WC{ID: uint64(i + 1), Op: ops[i], Length: lens[i], QPN: a.qp.Num()}, wc)
	}
	qpn := b.qp.Num()
	require.Equal(t, []ci.WC{
		{ID: 100, Op: ci.WCRecv, Length: 2*xMTU + 1, QPN: qpn, Flags: ci.WCImmediate, Imm: 0xa1b2c3d4},
		{ID: 101, Op: ci.WCRecv, Length: 11, QPN: qpn},
		{ID: 102, Op: ci.WCRecvWrite, Length: 2 * xMTU, QPN: qpn, Flags: ci.WCImmediate, Imm: 9},
		{ID: 103, Op: ci.WCRecv, Length: 3*xMTU - 1, QPN: qpn},
		{ID: 104, Op: ci.WCRecv, QPN: qpn},
	}, x.wcB)
	require.Equal(t, a.buf[:2*xMTU+1], b.buf[xRecv:xRecv+2*xMTU+1])
	require.Equal(t, a.buf[0x1000:0x1000+255], b.buf[xTarget:xTarget+255])
	require.Equal(t, a.buf[0x1100:0x1100+257], b.buf[xTarget+255:xTarget+512])
	require.Equal(t, b.buf[xTarget+0x1000:xTarget+0x1000+3*xMTU-1], a.buf[xRead:xRead+3*xMTU-1])
	require.EqualValues(t, 100, binary.NativeEndian.Uint64(a.buf[xOld:]))
	require.Equal(t, "inline data", string(b.buf[xRecv+4096:xRecv+4096+11]))
	require.Equal(t, b.buf[xTarget+0x2000:xTarget+0x2000+xMTU], a.buf[xRead+0x1000:xRead+0x1000+xMTU])
	require.Equal(t, a.buf[0x2000:0x2000+2*xMTU], b.buf[xTarget+0x3000:xTarget+0x3000+2*xMTU])
	require.EqualValues(t, 107, binary.NativeEndian.Uint64(a.buf[xOld+8:]))
	require.EqualValues(t, 500, binary.NativeEndian.Uint64(b.buf[xCounter:]))
	require.Equal(t, a.buf[xRead:xRead+3*xMTU-1], b.buf[xRecv+3*4096:xRecv+3*4096+3*xMTU-1])
}

func runExchange(t *testing.T, hints Hints, s *sim) (packets int) {
	t.Helper()
	a, b := simPair(t, &wireLink{hints: hints, sim: s}, ci.RC, func(q *ci.QPAttr) { q.MTU = ci.MTU256 })
	x := newExchange(a, b)
	x.post()
	s.run(t, time.Minute, x.done)
	n := s.n
	x.check(t)
	s.settle(t)
	require.Empty(t, a.poll())
	require.Empty(t, b.poll())
	require.Zero(t, s.clock.Pending(), "an idle QP has no timer")
	require.Zero(t, a.qp.(*QP).req.bytes)
	require.Zero(t, a.qp.(*QP).req.reads)
	return n
}

var mangleHints = []struct {
	name  string
	hints Hints
	whole bool
}{
	{"packets", Hints{}, false},
	{"cut trains", Hints{MaxTrain: 4096}, false},
	{"whole trains", Hints{MaxTrain: 4096}, true},
	{"window", Hints{MaxTrain: 512, Window: 1024}, false},
	{"lossless", Hints{MaxTrain: 4096, Lossless: true}, false},
}

// TestRCEachPacket mangles each packet of an exchange once in each way.
func TestRCEachPacket(t *testing.T) {
	ways := []struct {
		name string
		fate fate
	}{
		{"drop", fate{}},
		{"duplicate", fate{copies: 2}},
		{"swap", fate{copies: 1, behind: 1}},
		{"delay", fate{copies: 1, behind: 4}},
		{"late", fate{copies: 1, late: true}},
		{"duplicate, both behind", fate{copies: 2, behind: 2}},
	}
	for _, h := range mangleHints {
		t.Run(h.name, func(t *testing.T) {
			n := runExchange(t, h.hints, &sim{clock: newClock(), whole: h.whole})
			require.Greater(t, n, 12)
			for _, w := range ways {
				for k := range n {
					t.Run(fmt.Sprintf("%s %d", w.name, k), func(t *testing.T) {
						runExchange(t, h.hints, &sim{clock: newClock(), whole: h.whole,
							fate: func(n int, _ *Packet) fate {
								if n == k {
									return w.fate
								}
								return onTime
							}})
					})
				}
			}
		})
	}
}

// TestRCTwoPackets drops each pair of packets that are near each other.
func TestRCTwoPackets(t *testing.T) {
	h := mangleHints[3]
	n := runExchange(t, h.hints, &sim{clock: newClock()})
	for k := range n {
		for j := max(k-8, 0); j < k; j++ {
			runExchange(t, h.hints, &sim{clock: newClock(), fate: func(n int, _ *Packet) fate {
				if n == k || n == j {
					return fate{}
				}
				return onTime
			}})
		}
	}
}

// A stream sends messages of all kinds one way, each in its own slot, and checks each when it completes.
type stream struct {
	from, to *side
	rng      *rand.Rand
	posted   []streamed
	recvs    []streamed // those that take a receive
	polled   int
	received int
	sum      uint64 // sum of the additions to the peer's word 0
}

type streamed struct {
	op   ci.SendOp
	size int
	off  int
	old  uint64
	imm  bool
}

const (
	slots    = 24
	slotSize = 8192
	farHalf  = 1 << 19 // offset of the destinations
)

func fillRandom(rng *rand.Rand, b []byte) {
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
}

// post sends message number len(s.posted).
func (s *stream) post() {
	i := len(s.posted)
	m := streamed{off: 0x1000 + i%slots*slotSize, size: s.rng.IntN(5*256 + 2)}
	switch s.rng.IntN(8) {
	case 0:
		m.size = 0
	case 1:
		m.size = 256 * s.rng.IntN(20)
	}
	wr := ci.SendWR{ID: uint64(i), Flags: ci.SendSignaled, Remote: s.to.mr.Region().Remote(uint64(farHalf + m.off))}
	m.op = []ci.SendOp{ci.OpSend, ci.OpSend, ci.OpWrite, ci.OpRead, ci.OpFetchAdd}[s.rng.IntN(5)]
	switch m.op {
	case ci.OpSend, ci.OpWrite:
		fillRandom(s.rng, s.from.buf[m.off:m.off+m.size])
		m.imm = s.rng.IntN(2) == 0
	case ci.OpRead:
		fillRandom(s.rng, s.to.buf[farHalf+m.off:farHalf+m.off+m.size])
	case ci.OpFetchAdd:
		m.size = 8
		m.old = s.sum
		wr.Atomic.Compare = s.rng.Uint64N(1000)
		s.sum += wr.Atomic.Compare
		wr.Remote = s.to.mr.Region().Remote(0)
	}
	if m.imm {
		wr.Flags |= ci.SendImmediate
		wr.Imm = uint32(i)
	}
	if s.rng.IntN(4) == 0 {
		wr.Flags |= ci.SendFence
	}
	if m.op == ci.OpSend || m.imm {
		s.to.recv(ci.RecvWR{ID: uint64(i), SGL: s.to.sge(farHalf+m.off, slotSize)})
		s.recvs = append(s.recvs, m)
	}
	wr.Op, wr.SGL = m.op, s.from.sge(m.off, m.size)
	s.posted = append(s.posted, m)
	s.from.send(wr)
}

// sent handles a completion of the sender.
func (s *stream) sent(t *testing.T, wc ci.WC) {
	i := s.polled
	s.polled++
	m := s.posted[i]
	require.Equal(t, ci.WC{ID: uint64(i), Op: wcOps[m.op], Length: uint32(m.size), QPN: s.from.qp.Num()}, wc)
	near, far := s.from.buf[m.off:m.off+m.size], s.to.buf[farHalf+m.off:farHalf+m.off+m.size]
	if m.op == ci.OpFetchAdd {
		require.Equal(t, m.old, binary.NativeEndian.Uint64(near))
	} else {
		require.Equal(t, near, far)
	}
}

// came handles a completion of the receiver.
func (s *stream) came(t *testing.T, wc ci.WC) {
	m := s.recvs[s.received]
	s.received++
	want := ci.WC{ID: wc.ID, Op: ci.WCRecv, Length: uint32(m.size), QPN: s.to.qp.Num()}
	if m.op == ci.OpWrite {
		want.Op = ci.WCRecvWrite
	}
	if m.imm {
		want.Flags, want.Imm = ci.WCImmediate, uint32(wc.ID)
	}
	require.Equal(t, want, wc)
	require.Equal(t, m.off, 0x1000+int(wc.ID)%slots*slotSize)
}

// TestRCStreams sends thousands of messages both ways while a tenth of the packets is lost, a tenth duplicated and a
// tenth reordered.
func TestRCStreams(t *testing.T) {
	for _, h := range mangleHints {
		for seed := range uint64(2) {
			t.Run(fmt.Sprintf("%s %d", h.name, seed), func(t *testing.T) {
				total := 500
				if testing.Short() {
					total = 60
				}
				rng := rand.New(rand.NewPCG(seed, 7))
				s := &sim{clock: newClock(), whole: h.whole, fate: func(int, *Packet) fate {
					f := onTime
					switch rng.IntN(10) {
					case 0:
						f.copies = 0
					case 1:
						f.copies = 2
					case 2:
						f.behind = 1 + rng.IntN(5)
					case 3:
						f.late = rng.IntN(20) == 0
					}
					return f
				}}
				a, b := simPair(t, &wireLink{hints: h.hints, sim: s}, ci.RC, func(q *ci.QPAttr) { q.MTU = ci.MTU256 })
				streams := []*stream{{from: a, to: b, rng: rng}, {from: b, to: a, rng: rng}}
				s.run(t, time.Hour, func() bool {
					for i, x := range []*side{a, b} {
						for _, wc := range x.poll() {
							require.Equal(t, ci.WCSuccess, wc.Status, "seed %d, message %d", seed, wc.ID)
							if wc.Op.IsRecv() {
								streams[1-i].came(t, wc)
							} else {
								streams[i].sent(t, wc)
							}
						}
					}
					done := true
					for _, x := range streams {
						for len(x.posted) < total && len(x.posted)-x.polled < slots-1 &&
							len(x.recvs)-x.received < slots-1 && (len(x.posted) == x.polled || rng.IntN(8) != 0) {
							x.post()
						}
						done = done && x.polled == total && x.received == len(x.recvs)
					}
					return done
				})
				for _, x := range streams {
					require.Equal(t, x.sum, binary.NativeEndian.Uint64(x.to.buf))
				}
				s.settle(t)
				require.Zero(t, s.clock.Pending())
			})
		}
	}
}
