package cm_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/cm"
	"ciddk/mad"
)

// fallBehind makes the ports of the network stop delivery until a time.
func (n *network) fallBehind(until time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.behind = true
	time.AfterFunc(until, n.catchUp)
}

// lateCalls returns the number of functions that wait for CatchUp.
func (n *network) lateCalls() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.late)
}

// TestREQWaitsForPort checks that a REQ is not repeated while its answer waits in the port.
func TestREQWaitsForPort(t *testing.T) {
	inScript(t, func(t *testing.T, s *scripted) {
		s.net.fallBehind(time.Hour)
		times := s.net.sentTimes(mad.AttrREQ)
		v := s.enterREQSent()
		pass(2 * interval)
		require.Equal(t, 1, s.net.lateCalls(), "the timer has called CatchUp")
		s.send(s.reply(s.p.req))
		assert.Equal(t, cm.StateREPRcvd, v.c.State())
		s.net.catchUp()
		assert.Len(t, times(), 1)
		assert.Zero(t, s.x.m.Counters().Resent)
		assert.Equal(t, cm.StateREPRcvd, v.c.State(), "a late call changes nothing")
		v.end()
	})
}

// TestREQOfPortBehind checks that the REQ is repeated when the port has caught up, and at the latest at the end of the
// grace period.
func TestREQOfPortBehind(t *testing.T) {
	inScript(t, func(t *testing.T, s *scripted) {
		s.net.fallBehind(interval + time.Second)
		times := s.net.sentTimes(mad.AttrREQ)
		v := s.enterREQSent()
		pass(6 * interval)
		require.Len(t, times(), 3)
		assert.Equal(t, []time.Duration{0, interval + time.Second, 5*interval + time.Second}, times())
		assert.Equal(t, cm.StateREQSent, v.c.State())
		v.end()
	})
}

// TestLookupWaitsForPort is TestREQWaitsForPort for a lookup.
func TestLookupWaitsForPort(t *testing.T) {
	inScript(t, func(t *testing.T, s *scripted) {
		ms := time.Millisecond
		s.net.fallBehind(1500 * ms)
		times := s.net.sentTimes(mad.AttrSIDRREQ)
		start := time.Now()
		_, err := s.x.m.Lookup(t.Context(), cm.LookupConfig{Service: service1, Path: s.x.path(1, s.p.x, 1),
			Timeout: time.Second, Retries: 2})
		require.ErrorIs(t, err, cm.ErrTimeout)
		assert.Equal(t, []time.Duration{0, 1500 * ms, 5500 * ms}, times())
		assert.Equal(t, 9500*ms, time.Since(start))
		s.net.catchUp()
	})
}
