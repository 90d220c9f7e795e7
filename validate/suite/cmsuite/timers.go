package cmsuite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// The timers of a manager, whose clock the case advances.
var timers = area()

const (
	timerTime = 18 // exponent of the response times of these cases, 1.07 s
	timerLife = 14 // exponent of the packet life time
)

// around returns a response time and twice the packet life time.
func around(response mad.TimeExp) time.Duration {
	return response.Duration() + 2*mad.TimeExp(timerLife).Duration()
}

var CMTimer01 = timers.Must("CM-Timer-01", "IBTA 12.9.8.5",
	"cm, Service.Connect, Conn.Accept, Disconnect, LoadAlternate",
	"A message without an answer is repeated after the response time of the peer and twice the packet life time, as "+
		"often as Max CM Retries says. After an MRA the wait is the service timeout and twice the packet life time, "+
		"and at least the usual one. Then the call ends with ErrTimeout.")

var _ = timers.Case(validate.Case{
	ID:    "cm.timer.repeats",
	Title: "REQ, REP, DREQ and LAP without an answer, with and without MRAs",
	Run:   timerRepeats,
}, CMTimer01)

// waiting is a call that waits for the peer.
type waiting struct {
	message string // what the manager repeats
	mra     string // kind of the MRA that answers it; "" if there is none
	end     string // what the manager sends when it gives up
	state   cm.State
	begin   func(g *timed, answer mad.TimeExp, retries uint8) *linked
}

var waitings = []waiting{
	{"REQ", "MRA of REQ", "REJ of REQ, timeout", cm.StateClosed,
		func(g *timed, answer mad.TimeExp, retries uint8) *linked { return g.asking(answer, retries) }},
	{"REP", "MRA of REP", "REJ of REP, timeout", cm.StateTimeWait,
		func(g *timed, answer mad.TimeExp, retries uint8) *linked {
			return g.answered(func(q *mad.REQ) {
				q.LocalTimeout, q.RemoteTimeout, q.MaxCMRetries = answer, answer+1, retries
				q.Primary.AckTimeout = timerLife + 1
			})
		}},
	{"DREQ", "", nothing, cm.StateTimeWait,
		func(g *timed, answer mad.TimeExp, retries uint8) *linked {
			k := g.opened(answer, retries)
			err := k.StartDisconnect(g.t.Context(), nil, func(_ []byte, err error) { k.outcome <- err })
			kit.OK(g.t, err, "cm.Conn.StartDisconnect")
			g.sends("after StartDisconnect", "DREQ")
			return k
		}},
	{"LAP", "MRA of LAP", nothing, cm.StateEstablished,
		func(g *timed, answer mad.TimeExp, retries uint8) *linked {
			k := g.opened(answer, retries)
			err := k.StartLoadAlternate(g.t.Context(), cm.AlternateConfig{Path: g.there.path(g.here)},
				func(_ *mad.APR, err error) { k.outcome <- err })
			kit.OK(g.t, err, "cm.Conn.StartLoadAlternate")
			g.sends("after StartLoadAlternate", "LAP")
			return k
		}},
}

// asking makes the manager request a connection.
func (g *timed) asking(answer mad.TimeExp, retries uint8) *linked {
	return g.connectWith(func(c *cm.ConnectConfig) {
		c.RemoteResponseTime, c.ResponseTime, c.MaxRetries = answer, answer+1, retries
		c.Primary.LifeTime = timerLife
	})
}

// opened returns a connection that the manager has requested.
func (g *timed) opened(answer mad.TimeExp, retries uint8) *linked {
	k := g.asking(answer, retries)
	g.send(k.tid, k.rep)
	kit.OK(g.t, g.await(k), "cm.Service.StartConnect")
	kit.OK(g.t, k.Confirm(nil), "cm.Conn.Confirm")
	g.sends("after Confirm", "RTU")
	return k
}

// mraOf answers the last message of the manager.
func (g *timed) mraOf(k *linked, kind string, service mad.TimeExp) {
	a, _ := g.message(k, kind).(*mad.MRA)
	a.ServiceTimeout = service
	g.send(k.tid, a)
	g.sends("after an MRA", nothing)
}

func timerRepeats(t *validate.T) {
	const retries = 3
	g := newTimed(t, cm.Config{})
	for _, v := range kit.Variants(t, "", waitings) {
		if v.message == "LAP" && !t.Claims().Has(ci.CapAPM) {
			continue
		}
		for _, answer := range []mad.TimeExp{timerTime, 1} {
			usual := around(answer)
			if answer == 1 { // no manager answers at once: 17 ms are the least
				usual = around(12)
			}
			k := v.begin(g, answer, retries)
			first := g.repeats(k, v.message, usual)
			if v.mra != "" {
				g.clock.Advance(usual / 3)
				g.mraOf(k, v.mra, timerTime+2)
				if v.message == "REP" {
					inState(t, k, cm.StateMRAREPRcvd, "after an MRA")
				}
				g.repeats(k, v.message, around(timerTime+2))
				if v.message == "REP" {
					inState(t, k, cm.StateREPSent, "after the time of the MRA")
				}
				g.mraOf(k, v.mra, 1)
			} else {
				g.repeats(k, v.message, usual)
			}
			last := g.repeats(k, v.message, usual)
			kit.Equal(t, "last "+v.message, fmt.Sprint(last), fmt.Sprint(first))
			g.clock.Advance(usual - 1)
			g.sends("before the end of "+v.message, nothing)
			g.clock.Advance(1)
			err := g.await(k)
			kit.True(t, errors.Is(err, cm.ErrTimeout), "outcome of a call whose "+v.message+" has no answer",
				"cm.ErrTimeout", "%v", err)
			g.sends("after the last "+v.message, v.end)
			if k.Conn != nil {
				inState(t, k, v.state, "after the last "+v.message)
			}
			g.clock.Advance(time.Hour)
			g.sends("long after the last "+v.message, nothing)
		}
	}
}

var CMTimer02 = timers.Must("CM-Timer-02", "IBTA 12.9.8.4", "cm, Conn.Delay, Confirm, Listener.Accept",
	"A consumer that does not answer has an MRA sent in its name within the response time that the peer expects. The "+
		"manager then waits until the peer has given up. A copy of the peer's message has the MRA repeated, and the "+
		"wait starts again.")

var _ = timers.Case(validate.Case{
	ID:    "cm.timer.consumer",
	Title: "consumers that do not answer a REQ, a REP or a DREQ",
	Run:   timerConsumer,
}, CMTimer02)

func timerConsumer(t *validate.T) {
	const retries = 2
	g := newTimed(t, cm.Config{})
	for _, v := range kit.Variants(t, "", []struct {
		kind  string // the message of the peer
		begin func() *linked
	}{
		{"REQ", func() *linked {
			return g.requestWith(func(q *mad.REQ) {
				q.RemoteTimeout, q.LocalTimeout, q.MaxCMRetries = timerTime, timerTime+3, retries
				q.Primary.AckTimeout = timerLife + 1
			})
		}},
		{"REP", func() *linked {
			k := g.connectWith(func(c *cm.ConnectConfig) {
				c.ResponseTime, c.RemoteResponseTime, c.MaxRetries = timerTime, timerTime+3, retries
				c.Primary.LifeTime = timerLife
			})
			g.send(k.tid, k.rep)
			kit.OK(t, g.await(k), "cm.Service.StartConnect")
			return k
		}},
	}) {
		for _, isDelayed := range []bool{false, true} {
			k := v.begin()
			var service mad.TimeExp
			if isDelayed {
				service = timerTime + 4
				kit.OK(t, k.Delay(service, nil), "cm.Conn.Delay")
				g.sends("after Delay", "MRA of "+v.kind)
			} else {
				g.clock.Advance(mad.TimeExp(timerTime).Duration() - 1)
				list := g.sync("within the response time")
				kit.Equal(t, "messages within the response time", texts(list), "MRA of "+v.kind)
				a, _ := list[0].msg.(*mad.MRA)
				service = a.ServiceTimeout
				kit.True(t, service > timerTime, "service timeout", "longer than the response time", "%v", service)
				g.clock.Advance(1)
			}
			state := k.State()
			least := service.Duration() + (retries+1)*around(timerTime)
			for range 2 {
				g.clock.Advance(least - mad.TimeExp(timerTime).Duration())
				g.sends("while the consumer may answer", nothing)
				inState(t, k, state, "while the consumer may answer")
				g.send(k.tid, g.message(k, v.kind))
				g.sends("after a copy of the "+v.kind, "MRA of "+v.kind)
			}
			g.clock.Advance(least - 1)
			g.sends("before the peer has given up", nothing)
			inState(t, k, state, "before the peer has given up")
			g.clock.Advance(1)
			g.sends("when the peer has given up", "REJ of "+v.kind+", timeout")
			inState(t, k, cm.StateTimeWait, "after the consumer's time")
			e := event(t, k, cm.EventUnreachable, "event after the consumer's time")
			kit.True(t, errors.Is(e.Err, cm.ErrTimeout), "cause in the event", "cm.ErrTimeout", "%v", e.Err)
			g.clock.Advance(time.Hour)
			g.sends("long after the end", nothing)
		}
	}
	k := g.opened(timerTime+3, retries)
	k.req.LocalTimeout = timerTime + 4
	g.tell(k, "DREQ", nothing)
	g.passes(k.req.LocalTimeout.Duration(), "in which the peer waits for the DREP", "DREP")
	inState(t, k, cm.StateTimeWait, "after the DREP")
	// A request that is handed off keeps its timer.
	k = g.requestWith(func(q *mad.REQ) { q.RemoteTimeout = timerTime })
	other := listen(t, g.m, cm.ListenConfig{Service: service + 1})
	kit.OK(t, k.Handoff(service+1), "cm.Conn.Handoff")
	g.passes(mad.TimeExp(timerTime).Duration(), "of a request that was handed off", "MRA of REQ")
	inState(t, accepted(t, other), cm.StateMRAREQSent, "of a request that was handed off")
}

var CMTimer03 = timers.Must("CM-Timer-03", "IBTA 12.9.8.4", "cm, Conn.TimeWait, EventTimeWaitExit",
	"Time-wait lasts twice the packet life time and the peer's acknowledgement delay, and after a REJ until the peer "+
		"has given up. Then EventTimeWaitExit is the last event, and the connection is closed.")

var _ = timers.Case(validate.Case{
	ID:    "cm.timer.time-wait",
	Title: "time-wait of both ends, after a DREP and after a REJ",
	Run:   timerTimeWait,
}, CMTimer03)

func timerTimeWait(t *validate.T) {
	const retries = 2
	g := newTimed(t, cm.Config{})
	active := func() *linked {
		k := g.asking(timerTime+3, retries)
		k.rep.TargetAckDelay = timerLife + 2
		g.send(k.tid, k.rep)
		kit.OK(t, g.await(k), "cm.Service.StartConnect")
		return k
	}
	passive := func() *linked {
		return g.requestWith(func(q *mad.REQ) {
			q.RemoteTimeout, q.MaxCMRetries, q.Primary.AckTimeout = timerTime, retries, timerLife+1
		})
	}
	const life = mad.TimeExp(timerLife)
	delay := (life + 2).Duration()
	for _, v := range kit.Variants(t, "", []struct {
		name  string
		begin func() *linked
		end   func(k *linked)
		wait  time.Duration
	}{
		{"an active end that disconnects", active, func(k *linked) {
			kit.OK(t, k.Confirm(nil), "cm.Conn.Confirm")
			g.ended(k)
			g.sends("after the end", "RTU; DREQ")
			g.tell(k, "DREP", nothing)
		}, 2*life.Duration() + delay},
		{"an active end whose peer disconnects", active, func(k *linked) {
			g.tell(k, "DREQ", nothing)
			kit.OK(t, k.AnswerDisconnect(nil), "cm.Conn.AnswerDisconnect")
			g.sends("after the end", "DREP")
		}, 2*life.Duration() + delay},
		{"an active end that rejects", active, func(k *linked) {
			g.refused(k)
			g.sends("after the end", "REJ of REP, consumer reject")
		}, (retries + 1) * around(timerTime+4)},
		{"a passive end that rejects", passive, func(k *linked) {
			g.refused(k)
			g.sends("after the end", "REJ of REQ, consumer reject")
		}, (retries + 1) * around(timerTime)},
		{"a passive end that is rejected", passive, func(k *linked) { g.tell(k, "REJ", nothing) },
			(life + 1).Duration()},
	}) {
		for _, isClosed := range []bool{false, true} {
			k := v.begin()
			quarantine := k.TimeWait()
			v.end(k)
			if isClosed {
				kit.OK(t, k.Close(), "cm.Conn.Close")
			}
			g.lasts(k, v.wait)
			kit.Equal(t, "value of TimeWait of "+v.name, k.TimeWait(), quarantine)
			ctx, cancel := wait(t)
			for {
				e, err := k.Next(ctx)
				if isClosed {
					kit.True(t, errors.Is(err, cm.ErrClosed), "cm.Conn.Next after Close", "cm.ErrClosed", "%v", err)
					break
				}
				kit.OK(t, err, "cm.Conn.Next before EventTimeWaitExit of "+v.name)
				if e.Type == cm.EventTimeWaitExit {
					_, err = k.Next(ctx)
					kit.True(t, errors.Is(err, cm.ErrClosed), "cm.Conn.Next after the last event", "cm.ErrClosed",
						"%v", err)
					break
				}
			}
			cancel()
			// The IDs and the QP are free again.
			if !k.active {
				g.send(k.tid, k.req)
				c := accepted(t, g.l)
				kit.Equal(t, "REQ after time-wait", c.Request().REQ, *k.req)
				kit.OK(t, c.Reject(mad.RejConsumer, nil, nil), "cm.Conn.Reject")
				g.sends("after Reject", "REJ of REQ, consumer reject")
				g.clock.Advance(time.Hour)
			}
		}
	}
}

var CMTimer04 = timers.Must("CM-Timer-04", "IBTA 12.11", "cm, LookupConfig, LookupRequest",
	"A lookup without a Timeout is repeated after 1.1 s and twice the packet life time, and 8 times without Retries. "+
		"A lookup that was received can be answered for as long as the peer repeats it, and its answer is kept for "+
		"copies. Both are forgotten later.")

var _ = timers.Case(validate.Case{
	ID:    "cm.timer.lookup",
	Title: "the times of lookups at both ends",
	Run:   timerLookup,
}, CMTimer04)

func timerLookup(t *validate.T) {
	g := newTimed(t, cm.Config{})
	s := &sidrStage{g.rig, g.y}
	path := g.there.path(g.here)
	path.LifeTime = timerLife
	for _, v := range kit.Variants(t, "", []struct {
		timeout, want time.Duration
		retries, n    int
	}{{0, around(18), 0, 8}, {5 * time.Second, 5 * time.Second, 2, 2}}) {
		outcome := make(chan error, 1)
		err := g.m.StartLookup(t.Context(), cm.LookupConfig{Service: service, Path: path, Timeout: v.timeout,
			Retries: v.retries}, func(_ *cm.LookupReply, err error) { outcome <- err })
		kit.OK(t, err, "cm.Service.StartLookup")
		first, _ := expect[*mad.SIDRREQ](g.script, "SIDR_REQ")
		for range v.n {
			g.armed(v.want)
			g.clock.Advance(v.want - 1)
			g.sends("before the time of the next SIDR_REQ", nothing)
			g.clock.Advance(1)
			again, _ := expect[*mad.SIDRREQ](g.script, "SIDR_REQ without an answer")
			kit.Equal(t, "repeated SIDR_REQ", *again, *first)
		}
		g.armed(v.want)
		g.clock.Advance(v.want - 1)
		g.sends("after the last SIDR_REQ", nothing)
		g.clock.Advance(1)
		err = g.await(&linked{outcome: outcome})
		kit.True(t, errors.Is(err, cm.ErrTimeout), "outcome of a lookup without an answer", "cm.ErrTimeout", "%v", err)
		g.clock.Advance(time.Hour)
		g.sends("long after the last SIDR_REQ", nothing)
	}
	l := listen(t, g.m, cm.ListenConfig{Datagram: true})
	q := s.lookup("lookup")
	s.send(1, q)
	s.ignored("a SIDR_REQ")
	g.clock.Advance(65 * time.Second) // Linux repeats for as long
	s.send(1, q)
	s.ignored("a copy of a SIDR_REQ")
	r := s.taken(l, q)
	kit.OK(t, r.Accept(s.qp.Num(), 5, nil), "cm.LookupRequest.Accept")
	rep := s.answered(q, 1, mad.SIDRValid, "SIDR_REQ that is accepted late")
	g.clock.Advance(9 * time.Second)
	s.send(1, q)
	kit.Equal(t, "answer to a copy", *s.answered(q, 1, mad.SIDRValid, "copy of a SIDR_REQ"), *rep)
	g.clock.Advance(time.Hour)
	s.send(2, q)
	s.ignored("a SIDR_REQ after a long time")
	r = s.taken(l, q) // it is a new one
	g.clock.Advance(time.Hour)
	kit.WantExactly(t, r.Accept(s.qp.Num(), 5, nil), "cm.LookupRequest.Accept long after the peer has given up",
		ci.InvalidState)
	s.send(3, q)
	s.ignored("a SIDR_REQ after a long time without an answer")
	g.clock.Advance(time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := l.AcceptLookup(ctx)
	kit.True(t, errors.Is(err, context.Canceled), "cm.Listener.AcceptLookup with a context that has ended",
		"context.Canceled", "%v", err)
	s.send(4, q)
	s.taken(l, q)
}
