package cmsuite

import (
	"errors"
	"fmt"
	"time"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Recovery of QP1 from faults that the driver does not end by itself, in virtual time.

// Times of the recovery.
const (
	drainTime    = time.Second
	retryTime    = 10 * time.Millisecond
	maxRetryTime = 10 * time.Second
)

// nextIn waits until the next timer of the services expires after d.
func (b *bench) nextIn(d time.Duration, where string) {
	b.until(fmt.Sprintf("a timer of %v, %s", d, where), func() bool {
		at, ok := b.time.Next()
		return ok && at == b.time.Now()+d
	})
}

// passes sends datagrams both ways.
func (b *bench) passes(here, there mads.Agent, where string) {
	pass(b.t, here, there, b.side.to(b.peer), 5, "from a port "+where)
	pass(b.t, there, here, b.peer.to(b.side), 5, "to a port "+where)
	b.settle(1)
	b.sent()
}

var MADFault05 = recoveries.Must("MAD-Fault-05", "CI access layer", "mads",
	"While QP1 cannot be recovered, further attempts follow, the first after 10 ms, with twice the pause each time, "+
		"and 10 s at most.")

var _ = recoveries.Case(validate.Case{
	ID:    "mad.fault.attempts",
	Title: "QP1 in Error, which cannot be modified for a while",
	Run:   faultAttempts,
}, MADFault05)

func faultAttempts(t *validate.T) {
	b := newBench(t, benchSetting{virtual: true})
	here, there := b.agent(vendor(mad.Send)), b.peer.agent(vendor(mad.Send))
	b.passes(here, there, "before the fault")
	for range 2 { // the second fault begins with the first pause again
		attempts := 0
		b.set(func() {
			b.modify = func(typ ci.QPType, q ci.QP, set ci.QPField, a ci.QPAttr) error {
				b.mu.Lock()
				defer b.mu.Unlock()
				attempts++
				return &ci.Error{Verb: "QP.Modify", Status: ci.InsufficientResources}
			}
		})
		kit.OK(t, b.driver().QP.Modify(ci.ToError()), "QP.Modify of QP1, below the services")
		pause := retryTime
		for n := 1; n <= 13; n++ {
			b.until(fmt.Sprintf("attempt %d", n), func() bool { return attempts == n })
			b.nextIn(pause, fmt.Sprintf("after attempt %d", n))
			if n < 13 {
				b.time.Advance(pause)
				pause = min(2*pause, maxRetryTime)
			}
		}
		b.set(func() { b.modify = nil })
		b.time.Advance(pause)
		b.passes(here, there, "that was recovered")
	}
}

var MADFault06 = recoveries.Must("MAD-Fault-06", "IBTA 10.3.1", "mads, Agent.StartDo",
	"An adapter that does not complete what QP1 has outstanding is reset after a second. What was outstanding is sent "+
		"again, in order, and completions from before the reset have no effect.")

var _ = recoveries.Case(validate.Case{
	ID:    "mad.fault.drain",
	Title: "QP1 in Error, whose requests do not complete, and complete after the reset",
	Run:   faultDrain,
}, MADFault06)

func faultDrain(t *validate.T) {
	b := newBench(t, benchSetting{virtual: true})
	here, there := b.agent(vendor(mad.Send)), b.peer.agent(vendor(mad.Send))
	b.passes(here, there, "before the fault")
	q := b.driver()
	b.set(func() {
		b.hold = func(typ ci.QPType, w *ci.WC) bool {
			return typ == ci.QP1 && (w.Op == ci.WCSend || w.Status == ci.WCSuccess)
		}
	})
	to := b.side.to(b.peer)
	var ends []chan ended
	request := func(tid uint64) {
		m := datagram(t, mad.Get, tid)
		ends = append(ends, b.begin(t.Context(), here, &mads.Message{To: to, MAD: m, Timeout: time.Hour}))
	}
	request(1)
	request(2)
	b.deliver(1, datagram(t, mad.Send, 50)) // received, but not completed
	b.until("completions that are kept back", func() bool { return len(q.cq.kept) >= 3 })
	first := b.sent()
	kit.True(t, len(first) == 2, "datagrams before the fault", "2", "%s", describeSent(first))
	kit.OK(t, q.QP.Modify(ci.ToError()), "QP.Modify of QP1, below the services")
	b.nextIn(drainTime, "until the sends are given up")
	request(3)
	kit.Equal(t, "datagrams sent by a QP that is recovering", len(b.sent()), 0)
	b.time.Advance(drainTime)
	b.nextIn(drainTime, "until the QP is reset")
	kit.Equal(t, "datagrams sent by a QP that is recovering", len(b.sent()), 0)
	b.time.Advance(drainTime)
	b.until("datagrams after the reset", func() bool { return len(b.log) == 3 })
	again := b.sent()
	for i, p := range first {
		kit.SameBytes(t, fmt.Sprintf("datagram %d after the reset", i+1), again[i].mad, p.mad)
	}
	kit.Equal(t, "transaction ID of the last datagram after the reset", uint32(again[2].header().TID),
		uint32(first[1].header().TID)+1)

	t.Step("%s", "completions from before the reset")
	b.until("completions that are kept back", func() bool { return len(q.cq.kept) >= 6 })
	b.set(func() {
		b.hold = nil
		for i := range q.cq.kept {
			if i < 3 && q.cq.kept[i].Op == ci.WCSend { // if they counted, the new sends would fail
				q.cq.kept[i].Status = ci.WCLocalProtErr
			}
		}
		q.cq.ready, q.cq.kept = q.cq.kept, nil
	})
	b.passes(here, there, "that was reset")
	for i, end := range ends {
		pending(t, end, "request that was sent again")
		b.respond(again[i], nil)
		kit.OK(t, await(t, end, "request that was sent again").err, "request that was sent again")
	}
	b.settle(1)
}

var MADFault07 = recoveries.Must("MAD-Fault-07", "IBTA 10.3.1", "mads",
	"Each event that reports a fault of QP1 or of its CQ begins the recovery, although no completion shows the fault.")

var _ = recoveries.Case(validate.Case{
	ID:    "mad.fault.events",
	Title: "QP1 in Error, which only an event reports",
	Run:   faultEvents,
}, MADFault07)

func faultEvents(t *validate.T) {
	b := newBench(t, benchSetting{virtual: true})
	here, there := b.agent(vendor(mad.Send)), b.peer.agent(vendor(mad.Send))
	q := b.driver()
	for _, e := range kit.Variants(t, "event", []ci.EventType{ci.EventSQError, ci.EventRQError, ci.EventQPFatal,
		ci.EventWQReqError, ci.EventWQAccessError, ci.EventCQError}) {
		b.passes(here, there, "before the fault")
		recvs := 0
		b.set(func() { b.hold = func(typ ci.QPType, _ *ci.WC) bool { return typ == ci.QP1 } })
		kit.OK(t, q.QP.Modify(ci.ToError()), "QP.Modify of QP1, below the services")
		b.set(func() { recvs = b.recvs })
		if e == ci.EventCQError {
			q.cq.create.OnEvent(ci.Event{Type: e, Context: q.cq.create.Context})
		} else {
			q.create.OnEvent(ci.Event{Type: e, Context: q.create.Context})
		}
		b.recovers(q, recvs)
		b.set(func() { b.hold, q.cq.ready, q.cq.kept = nil, q.cq.kept, nil })
	}
	b.passes(here, there, "after the last fault")
}

// recovers advances the time until QP1 is in RTS and has receives again. recvs is the number of calls of PostRecv until
// the fault.
func (b *bench) recovers(q benchQP, recvs int) {
	isUp := func() bool {
		a, err := q.QP.QP.Query()
		return err == nil && a.State == ci.QPRTS && b.recvs > recvs
	}
	for up := false; !up; {
		b.until("a timer, or the end of the recovery", func() bool { up = isUp(); return up || b.time.Pending() > 0 })
		if at, ok := b.time.Next(); ok && !up {
			b.time.Advance(at - b.time.Now())
		}
	}
}

var MADFault08 = recoveries.Must("MAD-Fault-08", "CI access layer", "mads, Agent.StartDo",
	"A datagram that is flushed again and again ends with the status of the flush. Later ones are sent.")

var _ = recoveries.Case(validate.Case{
	ID:    "mad.fault.flushes",
	Title: "a request whose every send fails with QP1",
	Run:   faultFlushes,
}, MADFault08)

func faultFlushes(t *validate.T) {
	b := newBench(t, benchSetting{})
	here, there := b.agent(vendor(mad.Send)), b.peer.agent(vendor(mad.Send))
	b.passes(here, there, "before the fault")
	posts := 0
	b.set(func() {
		b.hook = func(typ ci.QPType, q ci.QP, wrs []ci.SendWR) (int, error) {
			b.mu.Lock()
			posts++
			b.mu.Unlock()
			if err := q.Modify(ci.ToError()); err != nil {
				t.Report(validate.Failure{Where: "QP.Modify of QP1, below the services", Expected: "success",
					Got: kit.Describe(err)})
			}
			return q.PostSend(wrs)
		}
	})
	end := b.begin(t.Context(), here, &mads.Message{To: b.side.to(b.peer), MAD: datagram(t, mad.Get, 1),
		Timeout: time.Hour, Retries: 1000})
	e := await(t, end, "request that is always flushed")
	b.set(func() { b.hook = nil })
	kit.WantExactly(t, e.err, "request that is always flushed", ci.ErrorStatus)
	var wc ci.WCError
	kit.True(t, errors.As(e.err, &wc), "cause in the error of the request", "a ci.WCError", "%v", e.err)
	kit.True(t, posts > 1, "posts of the request", "more than one", "%d", posts)
	b.passes(here, there, "that was flushed")
}
