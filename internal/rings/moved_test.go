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
	for _, x := range []struct {
		plain bool
		taken uint32 // entries that the consumer has read
	}{{false, 5}, {true, 5}, {false, 1}, {true, 1}, {false, 7}} {
		control := ControlSize
		create := NewSharedCompletion
		if x.plain {
			control, create = 0, NewPlainCompletion
		}
		b := alignedBytes(control + smallCQ.Bytes())
		cq := create(b, smallCQ, noFree)
		consumer := word(b[control:], offConsumer)
		for id := range uint64(7) { // the queue has been full, so that it has read the consumer's index
			require.True(t, cq.Put(&ci.WC{ID: id}))
		}
		require.False(t, cq.Put(&ci.WC{}))
		*consumer = x.taken
		require.True(t, cq.Put(&ci.WC{ID: 7}))
		to := alignedBytes(control + largeCQ.Bytes())
		require.NoError(t, cq.Move(to, largeCQ, noFree))
		require.EqualValues(t, 8-x.taken, cq.Len())
		for id := range uint64(7 + x.taken) {
			require.True(t, cq.Put(&ci.WC{ID: 8 + id}), "%+v %d", x, id)
		}
		require.False(t, cq.Put(&ci.WC{}), "%+v", x)
		q := openQueue(to[control:], largeCQ)
		for i := range uint32(15) {
			var wc ci.WC
			decodeWC(&wc, q.slot(i))
			require.EqualValues(t, x.taken+i, wc.ID, "%+v", x)
		}
	}
}

// TestMoveToLimit moves queues to smaller ones in which their entries just fit, and to those in which one does not. A
// queue that has not moved keeps its entries and its memory; one that has moved releases the old memory, and Free the
// new one.
func TestMoveToLimit(t *testing.T) {
	t.Parallel()
	large, small := shape(RecvShape(31, 1)), shape(RecvShape(15, 1))
	require.EqualValues(t, 16, small.Slots)
	for _, n := range []int{0, 1, 15, 16, 17, 31} {
		var freed []string
		record := func(name string) func() { return func() { freed = append(freed, name) } }
		b := alignedBytes(large.Bytes())
		recv := NewSharedRecv(b, large, record("old"))
		user, ok := OpenRecv(b, large)
		require.True(t, ok)
		for id := range n {
			require.Equal(t, 1, user.Post([]ci.RecvWR{{ID: uint64(id)}}))
		}
		err := recv.Move(alignedBytes(small.Bytes()), small, record("new"))
		if n > 15 {
			require.Equal(t, ci.Status(ci.InvalidMaxWRs), ci.StatusOf(err), "%d receives", n)
			require.Empty(t, freed)
		} else {
			require.NoError(t, err, "%d receives", n)
			require.Equal(t, []string{"old"}, freed)
		}
		var w rvt.RecvWork
		for id := range n {
			require.True(t, recv.Next(&w), "%d of %d", id, n)
			require.EqualValues(t, id, w.ID)
		}
		require.False(t, recv.Next(&w), "%d receives", n)
		recv.Free()
		require.Equal(t, map[bool]string{false: "new", true: "old"}[n > 15], freed[len(freed)-1])
	}

	largeCQ, smallCQ := shape(CompletionShape(31)), shape(CompletionShape(15))
	for _, n := range []int{0, 1, 15, 16, 17, 31} {
		var freed []string
		record := func(name string) func() { return func() { freed = append(freed, name) } }
		b := alignedBytes(ControlSize + largeCQ.Bytes())
		cq := NewSharedCompletion(b, largeCQ, record("old"))
		user, ok := OpenCompletion(b, largeCQ)
		require.True(t, ok)
		user.Arm(ci.NotifySolicited)
		for id := range n {
			require.True(t, cq.Put(&ci.WC{ID: uint64(id)}))
		}
		to := alignedBytes(ControlSize + smallCQ.Bytes())
		err := cq.Move(to, smallCQ, record("new"))
		if n > 15 {
			require.Equal(t, ci.Status(ci.Overflow), ci.StatusOf(err), "%d completions", n)
			require.Empty(t, freed)
			require.Equal(t, largeCQ.Slots-1, uint32(cq.Cap()))
		} else {
			require.NoError(t, err, "%d completions", n)
			require.Equal(t, []string{"old"}, freed)
			user, ok = OpenCompletion(to, smallCQ)
			require.True(t, ok)
		}
		require.False(t, cq.Fires(false), "armed for solicited completions only")
		require.True(t, cq.Fires(true))
		got := make([]ci.WC, 32)
		require.Equal(t, n, user.Get(got), "%d completions", n)
		for id := range n {
			require.EqualValues(t, id, got[id].ID)
		}
		user.Arm(ci.NotifyNext)
		require.True(t, cq.Fires(false), "the words of the queue that the library has")
		cq.Free()
		require.Equal(t, map[bool]string{false: "new", true: "old"}[n > 15], freed[len(freed)-1])
	}
}
