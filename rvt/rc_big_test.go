package rvt

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/internal/testenv"
	"ciddk/wire"
)

// hollow is memory without storage: the value of each byte follows from its offset. It cannot be addressed directly.
type hollow struct {
	size   uint64
	direct []byte // if not nil, Slice returns these bytes repeatedly
	bad    bool   // a byte arrived at the wrong offset
	wrote  uint64
}

func (h *hollow) Addr() uint64 { return 1 << 32 }
func (h *hollow) Len() uint64  { return h.size }
func (h *hollow) Slice(_, n uint64) []byte {
	if h.direct == nil {
		return nil
	}
	return h.direct[:min(n, uint64(len(h.direct)))]
}
func (h *hollow) ReadAt(p []byte, off int64) (int, error) {
	for i := range p {
		p[i] = hollowByte(off + int64(i))
	}
	return len(p), nil
}
func (h *hollow) WriteAt(p []byte, off int64) (int, error) {
	for _, i := range []int{0, len(p) - 1} {
		h.bad = h.bad || p[i] != hollowByte(off+int64(i))
	}
	h.wrote += uint64(len(p))
	return len(p), nil
}
func (h *hollow) Pin() (func(), error) { return func() {}, nil }

func hollowByte(off int64) byte { return byte(off>>8) ^ byte(off>>16) ^ byte(off) }

// hollow registers such memory.
func (s *side) hollow(h *hollow) ci.Region {
	s.t.Helper()
	mr, err := s.pd.RegisterMR(ci.MRCreate{Memory: h, Access: ci.LocalWrite | ci.RemoteRead | ci.RemoteWrite})
	require.NoError(s.t, err)
	s.t.Cleanup(func() { require.NoError(s.t, mr.Destroy()) })
	return mr.Region()
}

// TestCopiedMemory moves data that the engine cannot address, in messages longer than it can copy at once, from gather
// lists that fill the copy buffer exactly.
func TestCopiedMemory(t *testing.T) {
	for _, k := range linkKinds {
		for _, cuts := range [][]uint32{{1 << 20}, {1 << 16, 1 << 16, 1 << 19}, {40 << 10, 40 << 10, 1, 100},
			{1, 1 << 16, 1 << 16}} {
			t.Run(fmt.Sprint(k.name, cuts), func(t *testing.T) {
				a, b := pair(t, &wireLink{hints: k.hints}, ci.RC)
				from, to := &hollow{size: 1 << 20}, &hollow{size: 1 << 20}
				ra, rb := a.hollow(from), b.hollow(to)
				var sgl []ci.SGE
				var n uint64
				for _, c := range cuts {
					sgl = append(sgl, ra.SGE(n, c))
					n += uint64(c)
				}
				b.recv(ci.RecvWR{SGL: []ci.SGE{rb.SGE(0, 1<<20)}})
				a.send(ci.SendWR{ID: 1, SGL: sgl, Flags: ci.SendSignaled}, ci.SendWR{ID: 2, Op: ci.OpWrite, SGL: sgl,
					Remote: rb.Remote(0), Flags: ci.SendSignaled})
				for _, wc := range a.poll() {
					require.Equal(t, ci.WCSuccess, wc.Status)
				}
				require.EqualValues(t, n, b.onlyWC().Length)
				require.Equal(t, 2*n, to.wrote)
				require.False(t, to.bad)
				a.send(ci.SendWR{ID: 3, Op: ci.OpRead, SGL: sgl, Remote: rb.Remote(0), Flags: ci.SendSignaled})
				require.Equal(t, ci.WCSuccess, a.onlyWC().Status)
				require.Equal(t, n, from.wrote)
				require.False(t, from.bad)
			})
		}
	}
}

// watched is a link that checks the packets of a test against the PSN window.
func watched(t *testing.T, hints Hints) (a, b *side, most *int32) {
	most = new(int32)
	var una ci.PSN = psn0
	var fromA ci.LID
	s := &sim{clock: newClock(), whole: true, shallow: true, log: func(from ci.LID, p *Packet) {
		n := p.N
		switch p.Op {
		case wire.OpReadRequest:
			n = max((p.DMALen+255)/256, 1)
		case wire.OpSend, wire.OpWrite:
		case wire.OpAcknowledge, wire.OpReadResponse:
			if d := psnDiff(psnAdd(p.PSN, p.N), una); from != fromA && d > 0 {
				una = psnAdd(p.PSN, p.N)
			}
			return
		}
		*most = max(*most, psnDiff(psnAdd(p.PSN, n), una), psnDiff(p.PSN, una))
		require.GreaterOrEqual(t, psnDiff(p.PSN, una), int32(0))
	}}
	a, b = simPair(t, &wireLink{hints: hints, sim: s}, ci.RC, func(q *ci.QPAttr) { q.MTU = ci.MTU256 })
	fromA = a.lid
	return a, b, most
}

// TestLongestMessages moves 2^31 bytes, and slightly less, with the smallest MTU: 2^23 packets per message, which is
// half of all PSNs.
func TestLongestMessages(t *testing.T) {
	testenv.Measurement(t)
	const long = 1 << 31
	for _, hints := range []Hints{{MaxTrain: 16 << 20, Lossless: true}, {MaxTrain: 16 << 20}} {
		for _, size := range []uint32{long, long - 257} {
			for _, op := range []ci.SendOp{ci.OpSend, ci.OpWrite, ci.OpRead} {
				if op != ci.OpSend && (size != long || !hints.Lossless) {
					continue
				}
				t.Run(fmt.Sprint(hints.Lossless, size, op), func(t *testing.T) {
					a, b, most := watched(t, hints)
					chunk := make([]byte, 4<<20)
					ha, hb := &hollow{size: long, direct: chunk}, &hollow{size: long, direct: chunk}
					ra, rb := a.hollow(ha), b.hollow(hb)
					b.recv(ci.RecvWR{ID: 5, SGL: []ci.SGE{rb.SGE(0, long)}})
					a.send(ci.SendWR{ID: 1, Op: op, Flags: ci.SendSignaled, SGL: []ci.SGE{ra.SGE(0, size)},
						Remote: rb.Remote(0)},
						ci.SendWR{ID: 2, Op: ci.OpRead, Flags: ci.SendSignaled, SGL: a.sge(0, 8),
							Remote: b.mr.Region().Remote(0)})
					var wcs []ci.WC
					a.qp.(*QP).port.Port.(*linkPort).link.sim.run(t, 10*time.Second, func() bool {
						wcs = append(wcs, a.poll()...)
						return len(wcs) == 2
					})
					require.Equal(t, ci.WC{ID: 1, Op: wcOps[op], Length: size, QPN: a.qp.Num()}, wcs[0])
					require.Equal(t, ci.WCSuccess, wcs[1].Status)
					require.Less(t, *most, int32(1<<23))
					require.Zero(t, a.hca.Counters()["retries"])
					if op == ci.OpSend {
						require.Equal(t, size, b.onlyWC().Length)
					}
				})
			}
		}
	}
}

// TestTooLong checks the limit of 2^31 bytes.
func TestTooLong(t *testing.T) {
	for _, op := range []ci.SendOp{ci.OpSend, ci.OpWrite, ci.OpRead} {
		a, _ := pair(t, &wireLink{}, ci.RC)
		ra := a.hollow(&hollow{size: 1 << 31})
		a.send(ci.SendWR{ID: 1, Op: op, SGL: []ci.SGE{ra.SGE(0, 1<<31), a.sge(0, 1)[0]}})
		require.Equal(t, ci.WCLocalLenErr, a.onlyWC().Status)
		require.Equal(t, ci.QPError, a.state())
	}
}

// TestLosslessWindow covers a link that loses nothing but has a limited window.
func TestLosslessWindow(t *testing.T) {
	a, b := pair(t, &wireLink{hints: Hints{MaxTrain: 4096, Window: 8192, Lossless: true}}, ci.RC)
	b.recv(ci.RecvWR{SGL: b.sge(0, 300000)})
	a.send(ci.SendWR{SGL: a.sge(0, 300000), Flags: ci.SendSignaled})
	require.Equal(t, ci.WCSuccess, a.onlyWC().Status)
}

// TestReadOfManyRequests covers a READ longer than one request may ask for, and one split by a window, with losses. The
// boundaries of the requests do not move: each repeated request lies inside one of the original ones.
func TestReadOfManyRequests(t *testing.T) {
	for lose := 1; lose < 40; lose += 3 {
		type span struct{ from, to int32 }
		var asked []span
		rng := rand.New(rand.NewPCG(uint64(lose), 0))
		s := &sim{clock: newClock(), fate: func(int, *Packet) fate {
			if lose > 1 && rng.IntN(lose) == 0 {
				return fate{}
			}
			return onTime
		}, log: func(_ ci.LID, p *Packet) {
			if p.Op == wire.OpReadRequest {
				from := psnDiff(p.PSN, psn0)
				x := span{from, from + int32(max((p.DMALen+255)/256, 1))}
				i := slices.IndexFunc(asked, func(y span) bool { return x.from < y.to && y.from < x.to })
				if i < 0 {
					asked = append(asked, x)
				} else {
					require.True(t, asked[i].from <= x.from && x.to <= asked[i].to, "%v crosses %v", x, asked[i])
				}
			}
		}}
		a, b := simPair(t, &wireLink{hints: Hints{MaxTrain: 1024, Window: 16 << 10}, sim: s}, ci.RC,
			func(q *ci.QPAttr) { q.MTU = ci.MTU256 })
		for i := range b.buf[:90001] {
			b.buf[i] = byte(i * 31 >> 3)
		}
		a.send(ci.SendWR{ID: 1, Op: ci.OpRead, Flags: ci.SendSignaled, SGL: a.sge(0, 90001),
			Remote: b.mr.Region().Remote(0)})
		var wcs []ci.WC
		s.run(t, time.Minute, func() bool { wcs = append(wcs, a.poll()...); return len(wcs) > 0 })
		require.Equal(t, ci.WCSuccess, wcs[0].Status)
		require.Equal(t, b.buf[:90001], a.buf[:90001])
		require.Greater(t, len(asked), 10)
	}
}
