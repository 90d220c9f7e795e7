package userlib

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/hca/reference"
	"ciddk/internal/rings"
	"ciddk/internal/testenv"
)

// resize runs CQ.Resize with its hooks.
func (c *client) resize(q *userCQ, size int) (int, error) {
	a := ci.UserResizeCQ{CQ: q.u.Handle, Size: size}
	ub := &ci.UserBuffer{}
	require.NoError(c.t, c.lib.ResizeCQ.Pre(&a, ub))
	down := &ci.UserBuffer{Command: ub.Command, Status: ub.Status, Out: make([]byte, 0, cap(ub.Out))}
	granted, err := q.CQ.Resize(ci.CQResize{Size: size, User: down})
	if err == nil && down.Status == 0 {
		ub.Status, ub.Out = 0, down.Out
	}
	c.lib.ResizeCQ.Post(&a, ub, err)
	return granted, err
}

// modifySRQ runs SRQ.Modify of the depth with its hooks.
func (c *client) modifySRQ(s *userSRQ, depth int) error {
	a := ci.UserModifySRQ{SRQ: s.u.Handle, Set: ci.SRQFieldMaxWR, Attr: ci.SRQAttr{MaxWR: depth}}
	ub := &ci.UserBuffer{}
	require.NoError(c.t, c.lib.ModifySRQ.Pre(&a, ub))
	down := &ci.UserBuffer{Command: ub.Command, Status: ub.Status, Out: make([]byte, 0, cap(ub.Out))}
	err := s.SRQ.Modify(a.Set, ci.SRQAttr{MaxWR: depth, User: down})
	if err == nil && down.Status == 0 {
		ub.Status, ub.Out = 0, down.Out
	}
	c.lib.ModifySRQ.Post(&a, ub, err)
	return err
}

// TestResizeCQ changes the size of a CQ in shared memory, up and down, with entries in it and while it is armed. No
// entry is lost or repeated, and the event comes.
func TestResizeCQ(t *testing.T) {
	t.Parallel()
	a, _ := pairOf(t, ci.RC, func(c *reference.Config) { c.UserMemory = 64 << 20 }) // less than the largest CQ
	id := uint64(0)
	send := func(n int) {
		for range n {
			a.send(ci.SendWR{ID: id, Op: ci.OpNop, Flags: ci.SendSignaled})
			id++
		}
		for { // until the engine has executed them
			k, err := a.cq.u.Peek()
			require.NoError(t, err)
			if k >= n {
				return
			}
		}
	}
	next := uint64(0)
	for round, size := range []int{1000, 10, 3000, 20, 15} {
		send(10)
		require.NoError(t, a.cq.u.Notify(ci.NotifyNext))
		granted, err := a.resize(a.cq, size)
		require.NoError(t, err)
		require.GreaterOrEqual(t, granted, size)
		n, err := a.cq.u.Peek()
		require.NoError(t, err)
		require.Equal(t, 10, n)
		for _, w := range a.poll(10) {
			require.NoError(t, w.Err())
			require.Equal(t, next, w.ID)
			require.Same(t, a, w.Context)
			next++
		}
		send(1)
		require.Equal(t, next, a.poll(1)[0].ID)
		next++
		require.Eventually(t, func() bool { return a.fired.Load() == int64(round+1) },
			testenv.Patience, time.Millisecond)
	}
	send(10)
	_, err := a.resize(a.cq, 5)
	require.ErrorIs(t, err, ci.Overflow)
	require.Len(t, a.poll(10), 10, "a resize that fails changes nothing")
	_, err = a.resize(a.cq, 1<<30)
	require.ErrorIs(t, err, ci.InvalidCQSize)
	_, err = a.resize(a.cq, 1<<20-1) // more than the shared memory
	require.ErrorIs(t, err, ci.InsufficientResources)
	send(1)
	a.poll(1)
}

// TestResizeCQUnderTraffic changes the size of a CQ while one goroutine posts and another polls.
func TestResizeCQUnderTraffic(t *testing.T) {
	t.Parallel()
	a, _ := pairOf(t, ci.RC, nil)
	const total = 1000
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			_, err := a.resize(a.cq, 30+i%5*100)
			assert.NoError(t, err)
		}
	})
	outstanding := make(chan struct{}, 10)
	wg.Go(func() {
		for i := range uint64(total) {
			outstanding <- struct{}{}
			n, err := a.qp.u.PostSend([]ci.SendWR{{ID: i, Op: ci.OpNop, Flags: ci.SendSignaled}})
			assert.NoError(t, err)
			assert.Equal(t, 1, n)
		}
	})
	for next := uint64(0); next < total; {
		for _, w := range a.poll(1) {
			assert.Equal(t, next, w.ID)
			next++
			<-outstanding
		}
	}
	close(stop)
	wg.Wait()
}

// TestResizeSRQ changes the depth of an SRQ in shared memory with receives in it.
func TestResizeSRQ(t *testing.T) {
	t.Parallel()
	a, b := pairOf(t, ci.RC, nil)
	srq := b.createSRQ(ci.SRQAttr{MaxWR: 7, MaxSGE: 1})
	b.qp = b.createQP(ci.QPCreate{Type: ci.RC, SendCQ: b.cq, RecvCQ: b.cq, SRQ: srq,
		QPCaps: ci.QPCaps{SendDepth: 3, SendSGE: 1}})
	require.NoError(t, a.modify(a.qp, ci.QPFieldState, ci.QPAttr{State: ci.QPReset}))
	a.connect(b)
	b.connect(a)
	post := func(ids ...uint64) {
		for _, id := range ids {
			n, err := srq.u.PostRecv([]ci.RecvWR{{ID: id, SGL: b.sge(0, 64)}})
			require.NoError(t, err)
			require.Equal(t, 1, n)
		}
	}
	receive := func(id uint64) {
		a.send(ci.SendWR{ID: 1, Inline: []byte("x")})
		w := b.poll(1)[0]
		require.NoError(t, w.Err())
		require.Equal(t, id, w.ID)
	}
	post(1, 2, 3)
	receive(1)
	require.NoError(t, b.modifySRQ(srq, 40))
	post(4, 5, 6, 7, 8, 9, 10, 11, 12)
	for id := range uint64(5) {
		receive(id + 2)
	}
	require.NoError(t, b.modifySRQ(srq, 7))
	require.ErrorIs(t, b.modifySRQ(srq, 3), ci.InvalidMaxWRs)
	n, err := srq.u.PostRecv(make([]ci.RecvWR, 9))
	require.ErrorIs(t, err, ci.InsufficientResources)
	require.Equal(t, 1, n)
	for id := range uint64(6) {
		receive(id + 7)
	}
}

// TestResizeWithoutLibrary resizes queues in shared memory without the private data of the library, which fails.
func TestResizeWithoutLibrary(t *testing.T) {
	t.Parallel()
	a, _ := pairOf(t, ci.RC, nil)
	for _, ub := range []*ci.UserBuffer{nil, {}, {Command: rings.UserCommand}, {Command: rings.UserCommand + 1}} {
		_, err := a.cq.CQ.Resize(ci.CQResize{Size: 500, User: ub})
		require.Error(t, err)
		require.Contains(t, []ci.Status{ci.InsufficientResources, ci.InvalidParameter}, ci.StatusOf(err))
	}
	a.send(ci.SendWR{ID: 1, Op: ci.OpNop, Flags: ci.SendSignaled})
	a.poll(1)
}
