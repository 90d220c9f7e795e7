package rvt

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ciddk/ci"
)

// batchMemory is memory whose ranges are copied together. It counts copies, and fails at a span on demand.
type batchMemory struct {
	ci.Memory
	calls, spans atomic.Int64
	failAt       atomic.Int64 // the span that contains this byte cannot be copied; negative: none
}

func newBatchMemory(b []byte) *batchMemory {
	m := &batchMemory{Memory: ci.Bytes(b)}
	m.failAt.Store(-1)
	return m
}

func (m *batchMemory) Slice(uint64, uint64) []byte { return nil }

func (m *batchMemory) fails(off int64, n int) bool {
	at := m.failAt.Load()
	return at >= off && at < off+int64(n)
}

func (m *batchMemory) ReadAt(p []byte, off int64) (int, error) {
	m.calls.Add(1)
	if m.fails(off, len(p)) {
		return 0, ci.InvalidState
	}
	return m.Memory.ReadAt(p, off)
}

func (m *batchMemory) WriteAt(p []byte, off int64) (int, error) {
	m.calls.Add(1)
	if m.fails(off, len(p)) {
		return 0, ci.InvalidState
	}
	return m.Memory.WriteAt(p, off)
}

// Copier implements ci.BatchMemory.
func (m *batchMemory) Copier() ci.Copier { return m }

// CopySpans implements ci.Copier.
func (m *batchMemory) CopySpans(list []ci.Span, write bool) (int, error) {
	m.calls.Add(1)
	for i, s := range list {
		m.spans.Add(1)
		if m.fails(int64(s.Off), len(s.Bytes)) {
			return i, ci.InvalidState
		}
		f := s.Memory.(*batchMemory).Memory.ReadAt
		if write {
			f = s.Memory.(*batchMemory).Memory.WriteAt
		}
		if _, err := f(s.Bytes, int64(s.Off)); err != nil {
			return i, err
		}
	}
	return len(list), nil
}

// plainMemory has only the methods of ci.Memory.
type plainMemory struct{ ci.Memory }

// eachMemory calls f with batch memory as it is, and as memory that is copied range by range.
func eachMemory(f func(isBatch bool, m *batchMemory, memory ci.Memory, b []byte), size int) {
	for _, isBatch := range []bool{true, false} {
		b := make([]byte, size)
		m := newBatchMemory(b)
		var memory ci.Memory = m
		if !isBatch {
			memory = plainMemory{m}
		}
		f(isBatch, m, memory, b)
	}
}

// TestStoreBatch stores trains as the target of a WRITE. The data is the same as in memory whose ranges are copied one
// by one, with fewer copies.
func TestStoreBatch(t *testing.T) {
	const packets, mtu = 16, 1024
	for _, n := range []int{0, 1, 7, 8, mtu - 1, mtu, mtu + 1, packets * mtu, packets*mtu - 3} {
		data := patternOf(n)
		var payload [][]byte
		for b := range slices.Chunk(data, mtu) {
			payload = append(payload, b)
		}
		eachMemory(func(isBatch bool, m *batchMemory, memory ci.Memory, b []byte) {
			y := newStorage([]segment{{n: uint64(len(b)), m: memory}})
			require.Equal(t, isBatch, y.copier != nil)
			for _, last := range []bool{true, false} {
				clear(b)
				turn := new(turn)
				m.calls.Store(0)
				require.Equal(t, placed, turn.storeAt(mem{y, 5}, payload, uint32(n), last))
				require.Equal(t, data, b[5:5+n])
				require.Equal(t, make([]byte, 5), b[:5])
				require.Equal(t, make([]byte, 59), b[5+n:][:59])
				if isBatch {
					require.LessOrEqual(t, m.calls.Load(), int64(1))
				}
				for _, s := range turn.late.spans[:cap(turn.late.spans)] {
					require.Nil(t, s.Bytes, "a turn keeps no data")
				}
			}
			if n > 0 {
				beyond := mem{y, uint64(len(b) - n + 1)}
				require.Equal(t, access, new(turn).storeAt(beyond, payload, uint32(n), false))
				m.failAt.Store(5)
				require.Equal(t, access, new(turn).storeAt(mem{y, 5}, payload, uint32(n), true))
			}
		}, packets*mtu+64)
	}
}

func patternOf(n int) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(i*7 + i>>8 + 1)
	}
	return data
}

// TestScatterPieces copies pieces to entries of a scatter list that end within pieces.
func TestScatterPieces(t *testing.T) {
	const size = 3000
	data := patternOf(size)
	eachMemory(func(_ bool, _ *batchMemory, memory ci.Memory, b []byte) {
		y := newStorage([]segment{{n: uint64(len(b)), m: memory}})
		src, turn := pieceSource{pieces: [][]byte{data[:1000], {}, data[1000:1001], data[1001:]}}, new(turn)
		at := uint64(0)
		for _, n := range []uint32{0, 1, 500, 499, 1, 1500, 0, 499} {
			require.Equal(t, placed, turn.scatterPart(mem{y, 2 * at}, &src, n))
			require.Equal(t, data[at:at+uint64(n)], b[2*at:2*at+uint64(n)], "entry of %d bytes at %d", n, at)
			at += uint64(n)
		}
		require.EqualValues(t, size, at)
		require.Empty(t, src.pieces)
	}, 2*size)
}

// A batchRun is a run of requests between two sides whose memory is copied, some of which fail.
type batchRun struct {
	typ            ci.QPType
	together       bool // the link delivers what one Send has at once
	sends          []ci.SendWR
	recvs          []int // sizes
	fails, failsAt int   // side and byte; side 2: none
}

// A batchResult is what is visible of a run. The completions of a side are in the order of its CQ.
type batchResult struct {
	wcs    [2][]ci.WC
	states [2]ci.QPState
	events [2][]ci.EventType
	bufs   [2][]byte
}

const batchBytes = 1 << 14

// execute executes a run, with memory whose ranges are copied together or one by one.
func (x *batchRun) execute(t *testing.T, isBatch bool) (r batchResult, calls int64) {
	l := &wireLink{mtu: ci.MTU1024, together: x.together, hints: Hints{MaxTrain: 4096, Lossless: true}}
	var sides [2]*side
	sides[0], sides[1] = pair(t, l, x.typ)
	var keys [2]ci.Region
	var memories [2]*batchMemory
	for i, s := range sides {
		r.bufs[i] = patternOf(batchBytes)
		memories[i] = newBatchMemory(r.bufs[i])
		var m ci.Memory = memories[i]
		if !isBatch {
			m = plainMemory{m}
		}
		mr, err := s.pd.RegisterMR(ci.MRCreate{Memory: m, Access: ci.LocalWrite | ci.RemoteRead | ci.RemoteWrite})
		require.NoError(t, err)
		defer func() { require.NoError(t, mr.Destroy()) }()
		keys[i] = mr.Region()
	}
	at := batchBytes / 2
	for i, n := range x.recvs {
		sides[1].recv(ci.RecvWR{ID: uint64(i), SGL: []ci.SGE{keys[1].SGE(uint64(at), uint32(n/2)),
			keys[1].SGE(uint64(at+n/2), uint32(n-n/2))}})
		at += n
	}
	var list []ci.SendWR
	for i, w := range x.sends {
		w.ID = uint64(i)
		w.SGL = []ci.SGE{keys[0].SGE(w.SGL[0].Addr, w.SGL[0].Length)}
		if w.Op != ci.OpSend {
			w.Remote = keys[1].Remote(w.Remote.Addr)
		}
		if x.typ == ci.UD {
			av, err := sides[0].pd.CreateAV(ci.AVAttr{Port: 1, DLID: sides[1].lid})
			require.NoError(t, err)
			defer func() { require.NoError(t, av.Destroy()) }()
			w.To = ci.Dest{AV: av, QPN: sides[1].qp.Num(), QKey: 0x1234}
		}
		list = append(list, w)
	}
	if x.fails < 2 {
		memories[x.fails].failAt.Store(int64(x.failsAt))
	}
	for _, m := range memories {
		m.calls.Store(0)
	}
	sides[0].send(list...)
	for range 4 {
		for i, s := range sides {
			r.wcs[i] = append(r.wcs[i], s.poll()...)
		}
	}
	for i, s := range sides {
		r.states[i] = s.state()
		s.qp.(*QP).notify.Flush()
		for len(s.events) > 0 {
			r.events[i] = append(r.events[i], (<-s.events).Type)
		}
		for k := range r.wcs[i] {
			r.wcs[i][k].QPN, r.wcs[i][k].SrcQP = 0, 0
			if r.wcs[i][k].Status != ci.WCSuccess { // then the rest is undefined
				r.wcs[i][k] = ci.WC{ID: r.wcs[i][k].ID, Status: r.wcs[i][k].Status}
			}
		}
	}
	return r, memories[0].calls.Load() + memories[1].calls.Load()
}

// TestBatchMemory executes random requests in memory whose ranges are copied together, and in memory that is copied
// range by range, a part of which fails. Completions, their order, states and events are the same, and so is the memory
// if nothing fails.
func TestBatchMemory(t *testing.T) {
	for _, typ := range []ci.QPType{ci.RC, ci.UC, ci.UD} {
		t.Run(fmt.Sprint(typ), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				x := &batchRun{typ: typ, together: rapid.Bool().Draw(rt, "together")}
				ops, most := []ci.SendOp{ci.OpSend, ci.OpSend, ci.OpWrite, ci.OpWrite, ci.OpRead}, 3000
				switch typ {
				case ci.UC:
					ops = ops[:4]
				case ci.UD:
					ops, most = ops[:1], 1024
				}
				for range rapid.IntRange(1, 40).Draw(rt, "requests") {
					w := ci.SendWR{Op: rapid.SampledFrom(ops).Draw(rt, "op"), Flags: ci.SendSignaled}
					n := rapid.SampledFrom([]int{0, 1, 8, 64, 100, 1024, most}).Draw(rt, "size")
					if rapid.IntRange(0, 4).Draw(rt, "other size") == 0 {
						n = rapid.IntRange(0, most).Draw(rt, "bytes")
					}
					at := rapid.IntRange(0, batchBytes/2-n)
					w.SGL = []ci.SGE{{Addr: uint64(at.Draw(rt, "from")), Length: uint32(n)}}
					w.Remote.Addr = uint64(at.Draw(rt, "to"))
					if w.Op != ci.OpRead && rapid.Bool().Draw(rt, "immediate") {
						w.Flags |= ci.SendImmediate
					}
					if w.Op == ci.OpSend || w.Flags&ci.SendImmediate != 0 && w.Op == ci.OpWrite {
						x.recvs = append(x.recvs, 100+rapid.SampledFrom([]int{0, n, n}).Draw(rt, "room"))
					}
					x.sends = append(x.sends, w)
				}
				total := 0
				for i, n := range x.recvs {
					if total += n; total > batchBytes/2 {
						x.recvs = x.recvs[:i]
						break
					}
				}
				x.fails = rapid.IntRange(0, 2).Draw(rt, "failing side")
				x.failsAt = rapid.IntRange(0, batchBytes-1).Draw(rt, "failing byte")
				want, _ := x.execute(t, false)
				got, _ := x.execute(t, true)
				if x.fails < 2 {
					got.bufs, want.bufs = [2][]byte{}, [2][]byte{}
				}
				require.Equal(rt, want, got)
			})
		})
	}
}

// TestBatchCalls checks that a batch of small messages takes few calls for their source and for their target.
func TestBatchCalls(t *testing.T) {
	for _, op := range []ci.SendOp{ci.OpSend, ci.OpWrite} {
		x := &batchRun{typ: ci.RC, together: true, fails: 2}
		for i := range 32 {
			x.sends = append(x.sends, ci.SendWR{Op: op, SGL: []ci.SGE{{Addr: uint64(i * 128), Length: 64}},
				Remote: ci.Remote{Addr: uint64(i * 128)}})
			x.recvs = append(x.recvs, 100)
		}
		_, calls := x.execute(t, true)
		require.LessOrEqual(t, calls, int64(3), "%v: of the first message, of the others, to the target", op)
		_, calls = x.execute(t, false)
		require.GreaterOrEqual(t, calls, int64(64), "%v", op)
	}
}
