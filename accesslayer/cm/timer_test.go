package cm_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/mad"
)

// interval is the time between copies of a message in these tests: a response time of 18, and twice a packet life time
// of 14.
const interval = 4096*time.Nanosecond<<18 + 2*4096*time.Nanosecond<<14

// sentTimes records when messages with an attribute are sent.
func (n *network) sentTimes(attr uint16) func() []time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	var times []time.Duration
	start := time.Now()
	n.tap = func(d *datagram) {
		if d.attr() == attr {
			times = append(times, time.Since(start))
		}
	}
	return func() []time.Duration {
		n.mu.Lock()
		defer n.mu.Unlock()
		return times
	}
}

// A request without an answer is sent MaxRetries+1 times. Then the peer gets a REJ, and Connect returns.
func TestREQTimeout(t *testing.T) {
	inScript(t, func(t *testing.T, s *scripted) {
		times := s.net.sentTimes(mad.AttrREQ)
		start := time.Now()
		_, err := s.x.m.Connect(t.Context(), s.x.requestTo(s.p.x))
		require.ErrorIs(t, err, cm.ErrTimeout)
		assert.Equal(t, 6*interval, time.Since(start))
		assert.Equal(t, []time.Duration{0, interval, 2 * interval, 3 * interval, 4 * interval, 5 * interval}, times())
		s.settle()
		ms := s.take()
		j, ok := ms[len(ms)-1].(*mad.REJ)
		require.True(t, ok)
		assert.Equal(t, mad.RejTimeout, j.Reason)
		assert.Equal(t, mad.WhichREQ, j.Message)
		guid := uint64(s.x.hca.Info().GUID)
		assert.Equal(t, []byte{byte(guid >> 56), byte(guid >> 48), byte(guid >> 40), byte(guid >> 32), byte(guid >> 24),
			byte(guid >> 16), byte(guid >> 8), byte(guid)}, j.AdditionalInfo())
		for _, m := range ms[1:6] {
			assert.Equal(t, ms[0], m, "copies are equal")
		}
		c := s.x.m.Counters()
		assert.Equal(t, uint64(5), c.Resent)
		assert.Equal(t, uint64(1), c.TimedOut)
	})
}

// An MRA extends the wait for one answer. Afterwards the request is repeated as before.
func TestMRAStretches(t *testing.T) {
	inScript(t, func(t *testing.T, s *scripted) {
		times := s.net.sentTimes(mad.AttrREQ)
		v := s.enterREQSent()
		s.send(&mad.MRA{LocalCommID: s.p.id, RemoteCommID: v.ids.ours, Message: mad.WhichREQ, ServiceTimeout: 22})
		time.Sleep(mad.TimeExp(22).Duration() + 2*interval)
		assert.Equal(t, cm.StateREQSent, v.c.State())
		require.Len(t, times(), 3)
		assert.InDelta(t, mad.TimeExp(22).Duration()+2*mad.TimeExp(14).Duration(), times()[1]-times()[0],
			float64(10*time.Millisecond))
		assert.Equal(t, interval, times()[2]-times()[1])
		v.end()
	})
}

// TestMRAStretchesREP is TestMRAStretches for a REP.
func TestMRAStretchesREP(t *testing.T) {
	inScript(t, func(t *testing.T, s *scripted) {
		v := enterREPSent(s)
		times := s.net.sentTimes(mad.AttrREP)
		s.send(&mad.MRA{LocalCommID: s.p.id, RemoteCommID: v.ids.ours, Message: mad.WhichREP, ServiceTimeout: 22})
		time.Sleep(mad.TimeExp(22).Duration() + interval/2)
		assert.Equal(t, cm.StateREPSent, v.c.State())
		assert.Len(t, times(), 1)
		next(t, v.c, cm.EventDelayed)
		s.send(&mad.RTU{LocalCommID: s.p.id, RemoteCommID: v.ids.ours})
		assert.Equal(t, cm.StateEstablished, v.c.State())
		v.end()
	})
}

// The time in an MRA is limited by the configuration.
func TestMRABounded(t *testing.T) {
	inScriptOn(t, ci.LinkEthernet, cm.Config{MaxResponseTime: 20}, func(t *testing.T, s *scripted) {
		times := s.net.sentTimes(mad.AttrREQ)
		v := s.enterREQSent()
		s.send(&mad.MRA{LocalCommID: s.p.id, RemoteCommID: v.ids.ours, Message: mad.WhichREQ, ServiceTimeout: 31})
		time.Sleep(mad.TimeExp(20).Duration() + interval)
		assert.Len(t, times(), 2)
		v.end()
	})
}

// A REP without an RTU is sent MaxCMRetries+1 times, as the request specifies. Then Accept returns, and the connection
// ends.
func TestREPTimeout(t *testing.T) {
	inScript(t, func(t *testing.T, s *scripted) {
		v := s.enterREQRcvd()
		times := s.net.sentTimes(mad.AttrREP)
		wait := mad.TimeExp(18).Duration() + 2*mad.TimeExp(14).Duration()
		err := v.c.Accept(t.Context(), ourReply())
		require.ErrorIs(t, err, cm.ErrTimeout)
		assert.Equal(t, []time.Duration{0, wait, 2 * wait, 3 * wait, 4 * wait, 5 * wait}, times())
		assert.Equal(t, cm.StateTimeWait, v.c.State())
		s.settle()
		ms := s.take()
		j, ok := ms[len(ms)-1].(*mad.REJ)
		require.True(t, ok)
		assert.Equal(t, []any{mad.RejTimeout, mad.WhichREP}, []any{j.Reason, j.Message})
		next(t, v.c, cm.EventTimeWaitExit)
		v.end()
	})
}

// A call returns when its context ends, and the peer gets a REJ.
func TestContexts(t *testing.T) {
	inScript(t, func(t *testing.T, s *scripted) {
		soon := func() context.Context {
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			t.Cleanup(cancel)
			return ctx
		}
		_, err := s.x.m.Connect(soon(), s.x.requestTo(s.p.x))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		s.settle()
		ms := s.take()
		require.Len(t, ms, 2)
		assert.Equal(t, mad.RejTimeout, ms[1].(*mad.REJ).Reason)
		assert.Zero(t, s.x.m.Counters().Conns)

		v := s.enterREQRcvd()
		require.ErrorIs(t, v.c.Accept(soon(), ourReply()), context.DeadlineExceeded)
		s.settle()
		ms = s.take()
		require.Len(t, ms, 2)
		assert.Equal(t, mad.RejTimeout, ms[1].(*mad.REJ).Reason)
		assert.Equal(t, cm.StateTimeWait, v.c.State())
		v.end()

		s.p.id++
		v = enterPassive(s)
		next(t, v.c, cm.EventEstablished)
		_, err = v.c.Disconnect(soon(), nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, cm.StateDREQSent, v.c.State(), "the DREQ is still repeated")
		s.settle()
		s.take()
		s.send(&mad.DREP{LocalCommID: v.ids.theirs, RemoteCommID: v.ids.ours})
		require.NoError(t, next(t, v.c, cm.EventDisconnected).Err)
		_, err = v.c.Next(soon())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		next(t, v.c, cm.EventTimeWaitExit)
		v.end()

		over, cancel := context.WithCancel(context.Background())
		cancel()
		_, err = s.x.m.Connect(over, s.x.requestTo(s.p.x))
		require.ErrorIs(t, err, context.Canceled)
		_, err = s.x.m.Lookup(over, cm.LookupConfig{Path: s.x.path(1, s.p.x, 1)})
		require.ErrorIs(t, err, context.Canceled)
		_, err = s.x.listen().Accept(over)
		require.ErrorIs(t, err, context.Canceled)
		assert.Empty(t, s.take())
	})
}

// A connection ends without a DREP, too.
func TestDREQTimeout(t *testing.T) {
	inScript(t, func(t *testing.T, s *scripted) {
		v := enterActive(s)
		times := s.net.sentTimes(mad.AttrDREQ)
		start := time.Now()
		_, err := v.c.Disconnect(t.Context(), nil)
		require.ErrorIs(t, err, cm.ErrTimeout)
		assert.Equal(t, 6*interval, time.Since(start))
		assert.Len(t, times(), 6)
		assert.ErrorIs(t, next(t, v.c, cm.EventDisconnected).Err, cm.ErrTimeout)
		next(t, v.c, cm.EventTimeWaitExit)
		v.end()
	})
}

// While a request waits for Accept, or for an answer, the manager sends an MRA before the peer gives up.
func TestAutomaticMRA(t *testing.T) {
	inScript(t, func(t *testing.T, s *scripted) {
		l := s.x.listen()
		times := s.net.sentTimes(mad.AttrMRA)
		s.send(s.request())
		time.Sleep(mad.TimeExp(18).Duration())
		require.Len(t, times(), 1)
		assert.InDelta(t, mad.TimeExp(18).Duration()/2, times()[0], float64(10*time.Millisecond))
		a := one[*mad.MRA](s)
		assert.Equal(t, []any{mad.WhichREQ, s.p.id}, []any{a.Message, a.RemoteCommID})
		first := s.p.req
		s.send(first)
		assert.Equal(t, a, one[*mad.MRA](s), "the MRA is repeated for each copy")
		c := must(l.Accept(t.Context()))
		assert.Equal(t, cm.StateMRAREQSent, c.State())
		assert.Equal(t, a.LocalCommID, c.ID())

		// Without an answer, the request ends when the peer has given up.
		e := next(t, c, cm.EventUnreachable)
		assert.ErrorIs(t, e.Err, cm.ErrTimeout)
		assert.Equal(t, cm.StateTimeWait, c.State())
		assert.ErrorIs(t, c.Accept(t.Context(), ourReply()), ci.InvalidState)
		s.settle()
		assert.Equal(t, mad.RejTimeout, one[*mad.REJ](s).Reason)
		assert.Equal(t, uint64(1), s.x.m.Counters().Dropped[cm.DropUnanswered])
		require.NoError(t, l.Close())
	})
}

// The active end's consumer may take its time before Confirm, too.
func TestAutomaticMRAofREP(t *testing.T) {
	inScript(t, func(t *testing.T, s *scripted) {
		v := enterREPRcvd(s)
		time.Sleep(mad.TimeExp(18).Duration())
		a := one[*mad.MRA](s)
		assert.Equal(t, []any{mad.WhichREP, cm.StateMRAREPSent}, []any{a.Message, v.c.State()})
		next(t, v.c, cm.EventUnreachable)
		assert.Equal(t, cm.StateTimeWait, v.c.State())
		assert.ErrorIs(t, v.c.Confirm(nil), ci.InvalidState)
		v.end()
	})
}

// The manager answers a DREQ that the consumer does not answer, before the peer gives up.
func TestAutomaticDREP(t *testing.T) {
	inScript(t, func(t *testing.T, s *scripted) {
		v := enterPassive(s)
		start := time.Now()
		s.send(v.dreq())
		assert.Empty(t, s.take())
		next(t, v.c, cm.EventEstablished)
		next(t, v.c, cm.EventDisconnect)
		next(t, v.c, cm.EventDisconnected)
		assert.InDelta(t, mad.TimeExp(18).Duration()/2, time.Since(start), float64(10*time.Millisecond))
		s.settle()
		one[*mad.DREP](s)
		v.end()
	})
}

// The number of connections in time-wait is limited: the oldest leaves it early.
func TestTimeWaitBounded(t *testing.T) {
	inScriptOn(t, ci.LinkInfiniBand, cm.Config{MaxTimeWait: 3}, func(t *testing.T, s *scripted) {
		var conns []cm.Conn
		for range 5 {
			s.p.id++
			v := s.enterREQRcvd()
			require.NoError(t, v.c.Reject(mad.RejConsumer, nil, nil))
			conns = append(conns, v.c)
		}
		synctest.Wait()
		s.settle()
		for i, c := range conns {
			want := cm.StateTimeWait
			if i < 2 {
				want = cm.StateClosed
			}
			assert.Equal(t, want, c.State(), "%d", i)
		}
		assert.Equal(t, 3, s.x.m.Counters().TimeWait)
		next(t, conns[0], cm.EventTimeWaitExit)
	})
}

// OnEvent gets one event at a time, in order. It may block and may call any method.
func TestOnEvent(t *testing.T) {
	inPair(t, func(t *testing.T, p *pair) {
		events := make(chan cm.EventType, 16)
		l := p.b.listen()
		answer := reply()
		answer.OnEvent = func(c cm.Conn, e cm.Event) {
			time.Sleep(100 * time.Millisecond)
			if e.Type == cm.EventDisconnect {
				assert.NoError(t, c.AnswerDisconnect(nil))
			}
			events <- e.Type
		}
		a, b := p.connect(l, p.a.requestTo(p.b), answer)
		_, err := a.Disconnect(t.Context(), nil)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		for _, want := range []cm.EventType{cm.EventEstablished, cm.EventDisconnect, cm.EventDisconnected,
			cm.EventTimeWaitExit} {
			assert.Equal(t, want, <-events)
		}
		_, err = b.Next(t.Context())
		assert.ErrorIs(t, err, cm.ErrClosed)
		require.NoError(t, l.Close())
	})
}

// The response time in a REQ has a minimum, so that a forged REQ does not cause a burst of copies.
func TestHastyPeer(t *testing.T) {
	inScript(t, func(t *testing.T, s *scripted) {
		times := s.net.sentTimes(mad.AttrREP)
		l := s.x.listen()
		s.send(s.request(func(r *mad.REQ) {
			r.RemoteTimeout, r.LocalTimeout = 0, 0
			r.Primary.AckTimeout, r.MaxCMRetries = 0, 15
		}))
		v := &situation{s: s, c: must(l.Accept(t.Context()))}
		require.NoError(t, l.Close())
		time.Sleep(100 * time.Millisecond) // the consumer takes its time
		s.take()
		v.background(func(ctx context.Context) { _ = v.c.Accept(ctx, ourReply()) })
		time.Sleep(8 * time.Millisecond)
		assert.Len(t, times(), 1)
		s.send(&mad.RTU{LocalCommID: s.p.id, RemoteCommID: v.c.ID()})
		assert.Equal(t, cm.StateEstablished, v.c.State())
		v.end()
	})
}

// An MRA with a time of 0 does not shorten the wait.
func TestMRAOfNothing(t *testing.T) {
	inScript(t, func(t *testing.T, s *scripted) {
		times := s.net.sentTimes(mad.AttrREQ)
		v := s.enterREQSent()
		s.send(&mad.MRA{LocalCommID: s.p.id, RemoteCommID: v.ids.ours, Message: mad.WhichREQ})
		time.Sleep(interval / 2)
		assert.Len(t, times(), 1)
		time.Sleep(interval)
		assert.Len(t, times(), 2)
		v.end()
	})
}

// A peer that repeats its REQ after our REP was rejected has not received the REP. The REJ refers to its REQ.
func TestRefusedAgain(t *testing.T) {
	inScript(t, func(t *testing.T, s *scripted) {
		v := enterREPSent(s)
		require.NoError(t, v.c.Close())
		s.settle()
		assert.Equal(t, mad.WhichREP, one[*mad.REJ](s).Message)
		s.send(s.p.req)
		j := one[*mad.REJ](s)
		assert.Equal(t, []any{mad.WhichREQ, mad.RejConsumer}, []any{j.Message, j.Reason})
		v.end()
	})
}
