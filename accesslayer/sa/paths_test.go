package sa_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ciddk/accesslayer"
	"ciddk/accesslayer/mads"
	"ciddk/accesslayer/sa"
	"ciddk/ci"
	"ciddk/mad"
)

func to(n byte) sa.PathQuery { return sa.PathQuery{SGID: ci.GID{1}, DGID: ci.GID{15: n}} }

// cached runs a test in virtual time with a cache of paths.
func cached(t *testing.T, cfg sa.PathsConfig, f func(t *testing.T, p *sa.Paths, c *sa.Client, port mads.Port,
	a *administrator, s *service)) {
	inBubble(t, func(t *testing.T, c *sa.Client, port mads.Port, a *administrator, s *service) {
		p, err := c.NewPaths(cfg)
		require.NoError(t, err)
		f(t, p, c, port, a, s)
		require.NoError(t, p.Close())
		require.NoError(t, p.Close())
		_, err = p.Path(t.Context(), port, to(1))
		require.ErrorIs(t, err, sa.ErrClosed)
		synctest.Wait()
	})
}

// queries returns the number of path records that the administrator was asked for.
func (a *administrator) queries() (n int) {
	for _, l := range a.taken() {
		if l == "+PathRecord" {
			n++
		}
	}
	return n
}

// A path is queried once, until it is too old.
func TestPathsAge(t *testing.T) {
	cached(t, sa.PathsConfig{MaxAge: time.Minute}, func(t *testing.T, p *sa.Paths, _ *sa.Client, port mads.Port,
		a *administrator, _ *service) {
		for i, after := range []time.Duration{0, time.Minute - 1, 1, time.Minute} {
			time.Sleep(after)
			rec, err := p.Path(t.Context(), port, to(1))
			require.NoError(t, err)
			assert.EqualValues(t, to(1).DGID, rec.DGID)
			assert.Equal(t, []int{1, 0, 1, 1}[i], a.queries())
			rec.DLID = 99 // the caller's own copy
		}
		rec, err := p.Path(t.Context(), port, to(1))
		require.NoError(t, err)
		assert.NotEqual(t, uint16(99), rec.DLID)
		c := p.Counters()
		assert.Equal(t, sa.PathCounters{Paths: 1, Hits: 2, Queries: 3, Expired: 2}, c)
	})
}

// Requests for the same path share a query, also if the first one is canceled. A query without requests is canceled.
func TestPathsShare(t *testing.T) {
	cached(t, sa.PathsConfig{NoNotices: true}, func(t *testing.T, p *sa.Paths, _ *sa.Client, port mads.Port,
		a *administrator, s *service) {
		a.set(0, true)
		ends := make(chan error, 10)
		start := func(ctx context.Context) {
			require.NoError(t, p.StartPath(ctx, port, to(1), func(_ *mad.PathRecord, err error) { ends <- err }))
		}
		first, cancel := context.WithCancel(t.Context())
		start(first)
		start(t.Context())
		start(t.Context())
		cancel()
		require.ErrorIs(t, <-ends, context.Canceled)
		assert.Equal(t, 1, a.queries())
		time.Sleep(time.Minute) // the query times out
		require.ErrorIs(t, <-ends, ci.Timeout)
		require.ErrorIs(t, <-ends, ci.Timeout)
		assert.Equal(t, sa.PathCounters{Queries: 1, Shared: 2}, p.Counters(), "errors are not kept")

		second, cancel := context.WithCancel(t.Context())
		start(second)
		cancel()
		require.ErrorIs(t, <-ends, context.Canceled)
		a.set(0, false)
		start(t.Context())
		require.NoError(t, <-ends)
		assert.EqualValues(t, 3, p.Counters().Queries)

		a.set(0, true)
		p.Forget(port, ci.GID{})
		start(t.Context())
		synctest.Wait()
		require.NoError(t, p.Close())
		require.ErrorIs(t, <-ends, sa.ErrClosed)
		assert.Empty(t, s.oneWay)
	})
}

// TestPathsInvalidation checks that events of the port, and notices of the administrator, remove the paths that they
// concern, also paths whose query is in progress.
func TestPathsInvalidation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		al, ib, _ := world(t)
		a := newAdministrator()
		s := &service{answer: a.answer, timesOut: true}
		c := sa.New(al, s, sa.Config{})
		p, err := c.NewPaths(sa.PathsConfig{})
		require.NoError(t, err)
		fill := func() {
			t.Helper()
			for _, n := range []byte{1, 2, 3} {
				_, err := p.Path(t.Context(), ib, to(n))
				require.NoError(t, err)
			}
			synctest.Wait()
			assert.Equal(t, 3, p.Counters().Paths)
		}
		fill()
		for _, e := range []accesslayer.PortEventType{accesslayer.PortLID, accesslayer.PortSM, accesslayer.PortDown,
			accesslayer.PortReregister, accesslayer.PortGID, accesslayer.PortPKey, accesslayer.PortActive} {
			c.PortEvent(ib, e)
			assert.Zero(t, p.Counters().Paths, "%v", e)
			synctest.Wait()
			fill()
		}
		c.PortEvent(mads.Port{CA: ib.CA, Num: 2}, accesslayer.PortLID)
		assert.Equal(t, 3, p.Counters().Paths, "another port")

		sm := managerLID(t, al, ib)
		for i, trap := range []uint16{64, 65} {
			n := notice(trap, 2)
			s.report(uint64(i+1), sm, &n)
			synctest.Wait()
			assert.Equal(t, 2, p.Counters().Paths)
			fill()
		}
		n := notice(66, 2) // of a group
		s.report(7, sm, &n)
		synctest.Wait()
		assert.Equal(t, 3, p.Counters().Paths)
		p.Forget(ib, to(3).DGID)
		assert.Equal(t, 2, p.Counters().Paths)

		// A response that was on its way when the port got another LID is delivered, and not kept.
		hold := make(chan struct{})
		s.reply(func(q *mad.SA) {
			if q.Attribute == mad.AttrPathRecord {
				<-hold
			}
			a.answer(q)
		})
		got := make(chan error, 1)
		go func() {
			_, err := p.Path(t.Context(), ib, to(9))
			got <- err
		}()
		synctest.Wait()
		c.PortEvent(ib, accesslayer.PortLID)
		close(hold)
		require.NoError(t, <-got)
		synctest.Wait()
		assert.Zero(t, p.Counters().Paths)
		require.NoError(t, c.Close()) // closes the cache
		_, err = p.Path(t.Context(), ib, to(1))
		require.ErrorIs(t, err, sa.ErrClosed)
		synctest.Wait()
	})
}

// The cache never holds more than its bound, and the path that was used last is always in it.
func TestPathsBound(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		bound := rapid.IntRange(0, 5).Draw(rt, "paths")
		uses := rapid.SliceOfN(rapid.ByteRange(0, 9), 1, 40).Draw(rt, "uses")
		cfg := sa.PathsConfig{MaxBytes: bound*sa.PathBytes + 1, NoNotices: true}
		cached(t, cfg, func(t *testing.T, p *sa.Paths, _ *sa.Client, port mads.Port, a *administrator, _ *service) {
			var recent []byte // the last one used is at the end
			for _, n := range uses {
				isHit := false
				for i, m := range recent {
					if m == n {
						isHit = true
						recent = append(recent[:i:i], recent[i+1:]...)
						break
					}
				}
				recent = append(recent, n)
				recent = recent[max(len(recent)-bound, 0):]
				_, err := p.Path(t.Context(), port, to(n))
				require.NoError(t, err)
				assert.Equal(t, isHit, a.queries() == 0)
				assert.Equal(t, len(recent), p.Counters().Paths)
			}
		})
	})
}

// SLForIP is answered by the path of a port to itself with the service ID of the IP port.
func TestSLForIP(t *testing.T) {
	inBubble(t, func(t *testing.T, c *sa.Client, port mads.Port, a *administrator, s *service) {
		s.reply(func(q *mad.SA) {
			var p mad.PathRecord
			p.Parse(q.Data[:])
			assert.Equal(t, p.SGID, p.DGID)
			assert.NotZero(t, q.ComponentMask&mad.PathServiceID)
			p.SL = uint8(p.ServiceID) & 15
			p.Put(q.Data[:])
			assert.Equal(t, mad.PortSpaceTCP.ServiceID(0x4207), p.ServiceID)
		})
		sl, err := c.SLForIP(t.Context(), port, 0x4207)
		require.NoError(t, err)
		assert.EqualValues(t, 7, sl)
		require.ErrorIs(t, c.StartSLForIP(t.Context(), port, 1, nil), ci.InvalidParameter)
		s.reply(func(q *mad.SA) { q.Status = mad.StatusSANoRecords })
		_, err = c.SLForIP(t.Context(), port, 1)
		var refused *sa.StatusError
		require.ErrorAs(t, err, &refused)
		_, err = c.SLForIP(t.Context(), mads.Port{CA: 1}, 1)
		require.ErrorIs(t, err, ci.InvalidPort)
	})
}
