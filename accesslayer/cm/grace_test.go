package cm_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/cm"
	"ciddk/mad"
)

// fallBehind makes the ports of a network fall behind, and catch up after a time.
func (n *network) fallBehind(until time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.behind = true
	time.AfterFunc(until, n.catchUp)
}

// lateCalls counts the calls that wait.
func (n *network) lateCalls() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.late)
}

// TestREQWaitsForPort: a request is not sent again while its answer lies in the port.
func TestREQWaitsForPort(t *testing.T) {
	inScript(t, func(t *testing.T, s *scripted) {
		s.net.fallBehind(time.Hour)
		times := s.net.sentTimes(mad.AttrREQ)
		v := s.asking()
		pass(2 * interval)
		require.Equal(t, 1, s.net.lateCalls(), "the timer has asked the port")
		s.send(s.reply(s.p.req))
		assert.Equal(t, cm.StateREPRcvd, v.c.State())
		s.net.catchUp()
		assert.Len(t, times(), 1)
		assert.Zero(t, s.x.m.Counters().Resent)
		assert.Equal(t, cm.StateREPRcvd, v.c.State(), "a late call changes nothing")
		v.end()
	})
}

// TestREQOfPortBehind: the request is sent again when the port has caught up, at the latest after the grace time.
func TestREQOfPortBehind(t *testing.T) {
	inScript(t, func(t *testing.T, s *scripted) {
		s.net.fallBehind(interval + time.Second)
		times := s.net.sentTimes(mad.AttrREQ)
		v := s.asking()
		pass(6 * interval)
		require.Len(t, times(), 3)
		assert.Equal(t, []time.Duration{0, interval + time.Second, 5*interval + time.Second}, times())
		assert.Equal(t, cm.StateREQSent, v.c.State())
		v.end()
	})
}

// TestLookupWaitsForPort is the same for a lookup.
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
