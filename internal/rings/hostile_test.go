package rings

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/rvt"
)

// guarded returns n bytes, and the same bytes with 64 known bytes on either side, which reveal writes out of bounds.
// Reads out of bounds panic.
func guarded(n int) (all, b []byte) {
	all = alignedBytes(n + 128)
	for i := range all {
		all[i] = 0xa5
	}
	return all, all[64 : 64+n : 64+n]
}

func checkGuard(t *testing.T, all []byte) {
	for i := range 64 {
		require.EqualValues(t, 0xa5, all[i])
		require.EqualValues(t, 0xa5, all[len(all)-1-i])
	}
}

// FuzzHostileSend writes any bytes anywhere in a send queue, as another process could, while both ends use it.
func FuzzHostileSend(f *testing.F) {
	f.Add(uint8(3), uint8(1), []byte{0xff, 0xff, 0xff, 0xff}, uint16(128), []byte{0, 1, 2, 3})
	f.Add(uint8(15), uint8(2), []byte{0x80}, uint16(384+12), []byte{0, 0, 1, 2, 1, 1, 1, 2, 0})
	f.Fuzz(func(t *testing.T, depth, sge uint8, dirt []byte, at uint16, steps []byte) {
		d, s, inl := 1+int(depth%31), int(sge%5), int(sge%3)*16
		size := queueSize(sendGeometry(d, s, inl))
		all, b := guarded(size)
		r := newSendRing(b, d, s, inl)
		w := rvt.Work{SGL: make([]ci.SGE, 0, s)}
		wrs := []ci.SendWR{{Op: ci.OpSend, To: ci.Dest{AV: new(faceAV)}}, {Op: ci.OpFastReg, Ext: &ci.SendExt{}},
			{Op: ci.OpWrite,
				Inline: make([]byte, inl), SGL: nil}}
		open := 0
		for _, step := range steps {
			switch step % 4 {
			case 0:
				n := r.Post(wrs[step>>2%3:], faces{})
				require.LessOrEqual(t, n, r.Depth())
			case 1:
				if r.Next(&w) {
					open++
					require.LessOrEqual(t, len(w.SGL), s)
					require.LessOrEqual(t, len(w.Inline), inl)
					require.LessOrEqual(t, open, r.Depth())
				}
			case 2:
				n := min(int(step>>2), open)
				r.Retire(n)
				open -= n
			case 3:
				for i, c := range dirt {
					b[(int(at)+i+int(step))%size] = c
				}
			}
			require.GreaterOrEqual(t, r.Len(), 0)
			require.LessOrEqual(t, r.Len(), r.Depth())
		}
		checkGuard(t, all)
	})
}

// FuzzHostileRecv does the same for a receive queue and a completion queue.
func FuzzHostileRecv(f *testing.F) {
	f.Add(uint8(3), uint8(1), []byte{0xff, 0xff, 0xff, 0xff}, uint16(128), []byte{0, 1, 2, 3, 4, 5})
	f.Add(uint8(7), uint8(0), []byte{0xff, 1}, uint16(384+28), []byte{0, 3, 1, 2, 2, 3, 4, 1})
	f.Fuzz(func(t *testing.T, depth, sge uint8, dirt []byte, at uint16, steps []byte) {
		d, s := 1+int(depth%31), int(sge%5)
		size, csize := queueSize(recvGeometry(d, s)), queueSize(geometry(d, wcSize))
		all, b := guarded(size)
		call, cb := guarded(csize)
		r, c := newRecvRing(b, d, s), newCompletionRing(cb, d)
		w := rvt.RecvWork{SGL: make([]ci.SGE, 0, s)}
		wrs := []ci.RecvWR{{ID: 1, SGL: make([]ci.SGE, s)}, {ID: 2}}
		for _, step := range steps {
			switch step % 5 {
			case 0:
				require.LessOrEqual(t, r.Post(wrs), len(wrs))
			case 1:
				if r.Next(&w) {
					require.LessOrEqual(t, len(w.SGL), s)
				}
			case 2:
				c.Put(&ci.WC{Status: ci.WCStatus(step), Op: ci.WCOp(step), Flags: 0xffff})
			case 3:
				require.LessOrEqual(t, c.Get(make([]ci.WC, step>>3)), int(step>>3))
			case 4:
				for i, x := range dirt {
					b[(int(at)+i+int(step))%size] = x
					cb[(int(at)+i+int(step))%csize] = x
				}
				if step&16 != 0 {
					// The results are checked against the model elsewhere. Here, Resize must not panic or access memory
					// out of bounds.
					_ = r.Resize(d)
					_ = c.Resize(d + 1)
				}
			}
			require.LessOrEqual(t, r.Len(), r.Depth())
			require.LessOrEqual(t, c.Len(), c.Cap())
		}
		checkGuard(t, all)
		checkGuard(t, call)
	})
}

// TestOverwrittenIndices checks that neither side uses a slot that the other is about to write when the indices in
// shared memory are overwritten: the side tables hold Go values.
func TestOverwrittenIndices(t *testing.T) {
	send, completions := newSendRing(alignedBytes(queueSize(sendGeometry(3, 1, 0))), 3, 1, 0),
		newCompletionRing(alignedBytes(queueSize(geometry(3, wcSize))), 3)
	w := rvt.Work{SGL: make([]ci.SGE, 0, 1)}
	require.Equal(t, 1, send.Post([]ci.SendWR{{ID: 7, Op: ci.OpSend, To: ci.Dest{AV: new(faceAV)}}}, faces{}))
	require.True(t, completions.Put(&ci.WC{ID: 7}))
	for i := range uint32(4) {
		*send.q.prod, *completions.q.prod = i, i
		require.Equal(t, 1, send.Len())
		require.Equal(t, 1, completions.Len())
	}
	require.True(t, send.Next(&w))
	require.False(t, send.Next(&w))
	require.Equal(t, 1, completions.Get(make([]ci.WC, 3)))
	require.Zero(t, completions.Get(make([]ci.WC, 3)))
	for i := range uint32(4) {
		*send.q.cons, *completions.q.cons = i, i
	}
	require.Equal(t, 2, send.Post([]ci.SendWR{{ID: 8}, {ID: 9}, {ID: 10}}, faces{}), "the first request is not retired")
	send.Retire(1)
	require.Equal(t, 1, send.Post([]ci.SendWR{{ID: 10}}, faces{}))
}
