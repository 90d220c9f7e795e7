package cmid_test

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/ci"
	"ciddk/mad"
)

// TestJoinSteps joins and leaves a group over InfiniBand while the subnet administrator does not reply. Joins of one
// port share one request; each of them ends once; and the port is not a member in the end.
func TestJoinSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSubnet(t)
		h := s.host(nil)
		group := netip.MustParseAddr("239.1.2.3")
		c := cmid.NewEventChannel(nil)
		var ids [3]*cmid.ID
		for k := range ids {
			var err error
			ids[k], err = h.m.NewID(cmid.IDConfig{Space: cmid.UDP, Events: c})
			require.NoError(t, err)
			require.NoError(t, ids[k].Bind(netip.AddrPortFrom(h.addr, 0)))
			require.NoError(t, ids[k].CreateQP(cmid.QPConfig{}))
		}
		join := func(k int) *cmid.Group {
			g, err := ids[k].StartJoin(group, cmid.JoinConfig{})
			require.NoError(t, err)
			return g
		}
		members := func() (n, joins int) {
			s.set(func() {
				for _, m := range s.members {
					n += m
				}
				joins = s.joins
			})
			return n, joins
		}

		s.set(func() { s.lost = 1 })
		g0, g1, g2 := join(0), join(1), join(2)
		requireNone(t, c)
		require.NoError(t, g1.StartLeave(), "the join is pending")
		e := next(t, c, cmid.EventGroupError)
		assert.Same(t, e.Group, g1)
		require.NoError(t, ids[2].Close(), "its event is discarded")
		assert.Same(t, next(t, c, cmid.EventGroupJoined).Group, g0)
		n, joins := members()
		assert.Equal(t, 1, n)
		assert.Equal(t, 1, joins, "one request for all")
		assert.NotZero(t, g0.Peer().AV.DLID)
		assert.Zero(t, g2.Peer().AV.DLID)

		g1 = join(1)
		assert.Same(t, next(t, c, cmid.EventGroupJoined).Group, g1)
		require.NoError(t, g0.StartLeave())
		requireNone(t, c)
		n, joins = members()
		assert.Equal(t, []int{1, 1}, []int{n, joins}, "another ID is still a member")

		// The last member leaves while the next one joins: the requests follow each other.
		s.set(func() { s.lost = 1 })
		require.NoError(t, g1.StartLeave())
		g0 = join(0)
		assert.Same(t, next(t, c, cmid.EventGroupJoined).Group, g0)
		n, joins = members()
		assert.Equal(t, []int{1, 2}, []int{n, joins})

		// All leave while a join is pending: the port leaves, since the request may have been executed.
		require.NoError(t, g0.StartLeave())
		requireNone(t, c)
		s.set(func() { s.lost = 1 })
		join(0)
		requireNone(t, c)
		require.NoError(t, ids[0].Close())
		time.Sleep(time.Minute)
		requireNone(t, c)
		n, joins = members()
		assert.Equal(t, []int{0, 2}, []int{n, joins})

		// A rejection ends all joins that wait for it.
		s.set(func() { s.fail, s.lost = mad.StatusSANoResources, 1 })
		first, second := join(1), join(1)
		failed := map[*cmid.Group]int{}
		failed[next(t, c, cmid.EventGroupError).Group]++
		failed[next(t, c, cmid.EventGroupError).Group]++
		assert.Equal(t, []int{1, 1}, []int{failed[first], failed[second]})
		_, err := ids[1].StartJoin(netip.MustParseAddr("10.0.0.1"), cmid.JoinConfig{})
		require.ErrorIs(t, err, ci.InvalidGID)
		requireNone(t, c)
	})
}
