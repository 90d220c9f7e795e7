package rings

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/rvt"
)

// TestMoveAfterWrap moves queues whose indices are not zero. Afterwards a receive queue yields what was posted and
// nothing else, and a completion queue does not overwrite entries that were not read.
func TestMoveAfterWrap(t *testing.T) {
	t.Parallel()
	small, large := shape(RecvShape(7, 1)), shape(RecvShape(31, 1))
	b := alignedBytes(small.Bytes())
	recv := NewSharedRecv(b, small, noFree)
	user, ok := OpenRecv(b, small)
	require.True(t, ok)
	var w rvt.RecvWork
	for id := range uint64(5) {
		require.Equal(t, 1, user.Post([]ci.RecvWR{{ID: id}}))
	}
	for range 5 {
		require.True(t, recv.Next(&w))
	}
	require.Equal(t, 2, user.Post([]ci.RecvWR{{ID: 5}, {ID: 6}}))
	require.NoError(t, recv.Move(alignedBytes(large.Bytes()), large, noFree))
	for id := uint64(5); id < 7; id++ {
		require.True(t, recv.Next(&w))
		require.Equal(t, id, w.ID)
	}
	require.False(t, recv.Next(&w))

	smallCQ, largeCQ := shape(CompletionShape(7)), shape(CompletionShape(15))
	for _, plain := range []bool{false, true} {
		control := ControlSize
		create := NewSharedCompletion
		if plain {
			control, create = 0, NewPlainCompletion
		}
		b := alignedBytes(control + smallCQ.Bytes())
		cq := create(b, smallCQ, noFree)
		consumer := word(b[control:], offConsumer)
		for id := range uint64(7) { // the queue has been full, so that it has read the consumer's index
			require.True(t, cq.Put(&ci.WC{ID: id}))
		}
		require.False(t, cq.Put(&ci.WC{}))
		*consumer = 5
		require.True(t, cq.Put(&ci.WC{ID: 7}))
		to := alignedBytes(control + largeCQ.Bytes())
		require.NoError(t, cq.Move(to, largeCQ, noFree))
		require.Equal(t, 3, cq.Len())
		for id := uint64(8); id < 20; id++ {
			require.True(t, cq.Put(&ci.WC{ID: id}), "%d", id)
		}
		require.False(t, cq.Put(&ci.WC{}))
		q := openQueue(to[control:], largeCQ)
		for i := range uint32(15) {
			var wc ci.WC
			decodeWC(&wc, q.slot(i))
			require.EqualValues(t, 5+i, wc.ID, "plain %v", plain)
		}
	}
}
