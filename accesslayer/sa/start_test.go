package sa_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/sa"
	"ciddk/ci"
	"ciddk/internal/testenv"
	"ciddk/mad"
)

// TestStart ends event-driven requests in each possible way, in virtual time.
func TestStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		al, ib, ethernet := world(t)
		s := &service{answer: func(q *mad.SA) {}}
		c := sa.New(al, s, sa.Config{Timeout: time.Second, Retries: 3})
		ends := make(chan error, 8)
		path := func(ctx context.Context) error {
			return c.StartPath(ctx, ib, sa.PathQuery{SGID: ci.GID{1}, DGID: ci.GID{2}},
				func(p *mad.PathRecord, err error) {
					if assert.Equal(t, err == nil, p != nil) && err == nil {
						assert.EqualValues(t, ci.GID{2}, p.DGID)
					}
					ends <- err
				})
		}
		require.NoError(t, path(t.Context()))
		require.NoError(t, <-ends)
		rec := mad.MCMemberRecord{MGID: ci.GID{0xff}, JoinState: mad.FullMember}
		require.NoError(t, c.StartJoin(t.Context(), ib, rec, mad.MCMGID, func(r *mad.MCMemberRecord, err error) {
			// done may call the waiting forms.
			if assert.NoError(t, err) && assert.Equal(t, rec.MGID, r.MGID) {
				err = c.Leave(t.Context(), ib, *r)
			}
			ends <- err
		}))
		require.NoError(t, <-ends)
		require.NoError(t, c.StartLeave(t.Context(), ib, rec, func(err error) { ends <- err }))
		require.NoError(t, <-ends)

		// A request that does not start.
		require.ErrorIs(t, c.StartLeave(t.Context(), ethernet, rec, func(error) { ends <- nil }), ci.InvalidPort)
		require.ErrorIs(t, c.StartDo(t.Context(), ib, &mad.SA{}, nil), ci.InvalidParameter)
		require.ErrorIs(t, c.StartPath(t.Context(), ib, sa.PathQuery{}, nil), ci.InvalidParameter)
		require.ErrorIs(t, c.StartJoin(t.Context(), ib, rec, 0, nil), ci.InvalidParameter)
		require.ErrorIs(t, c.StartLeave(t.Context(), ib, rec, nil), ci.InvalidParameter)

		// The context ends while the request waits for a response, and while it waits to be repeated.
		s.reply(func(q *mad.SA) { q.Class = 0 })
		ctx, cancel := context.WithCancel(t.Context())
		require.NoError(t, path(ctx))
		cancel()
		require.ErrorIs(t, <-ends, context.Canceled)
		require.ErrorIs(t, path(ctx), context.Canceled)
		busy := func(q *mad.SA) { q.Status = mad.StatusBusy }
		s.reply(busy)
		ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		start := time.Now()
		require.NoError(t, path(ctx))
		require.ErrorIs(t, <-ends, context.DeadlineExceeded)
		assert.Equal(t, 100*time.Millisecond, time.Since(start))

		// A request that is repeated gets its response.
		require.NoError(t, path(t.Context()))
		synctest.Wait()
		s.reply(func(*mad.SA) {})
		start = time.Now()
		require.NoError(t, <-ends)
		assert.Equal(t, 250*time.Millisecond, time.Since(start))

		// The agent is closed while the request is pending, as when the port was removed and added again: another one
		// sends it.
		s.reply(func(q *mad.SA) { q.Class = 0 })
		require.NoError(t, path(t.Context()))
		s.reply(func(*mad.SA) {})
		agent, agents := s.last()
		require.NoError(t, agent.Close())
		require.NoError(t, <-ends)
		_, now := s.last()
		require.Equal(t, agents+1, now)

		// Close ends two requests at once: one that waits for its repetition, and one that waits for a response.
		s.reply(busy)
		require.NoError(t, path(t.Context()))
		synctest.Wait()
		s.reply(func(q *mad.SA) { q.Class = 0 })
		require.NoError(t, path(t.Context()))
		start = time.Now()
		require.NoError(t, c.Close())
		require.ErrorIs(t, <-ends, sa.ErrClosed)
		require.ErrorIs(t, <-ends, sa.ErrClosed)
		assert.Zero(t, time.Since(start))
		require.ErrorIs(t, path(t.Context()), sa.ErrClosed)
		time.Sleep(time.Hour)
		assert.Empty(t, ends, "done is called once for each request that started")
	})
}

// TestPendingHoldsNoGoroutine counts the goroutines while 100 requests wait to be repeated.
func TestPendingHoldsNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		al, ib, _ := world(t)
		s := &service{answer: func(q *mad.SA) { q.Status = mad.StatusBusy }}
		c := sa.New(al, s, sa.Config{Timeout: time.Hour})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ends := make(chan error, 101)
		start := func() {
			require.NoError(t, c.StartPath(ctx, ib, sa.PathQuery{}, func(_ *mad.PathRecord, err error) { ends <- err }))
			synctest.Wait()
		}
		start()
		before := testenv.NumGoroutine()
		for range 100 {
			start()
		}
		assert.Less(t, testenv.NumGoroutine(), before+50, "100 requests are pending") // others may be about to exit
		assert.Empty(t, ends)
		require.NoError(t, c.Close())
		for range 101 {
			require.ErrorIs(t, <-ends, sa.ErrClosed)
		}
	})
}
