package cmid

import (
	"context"
	"errors"
	"sync/atomic"
	"syscall"
	"time"

	"ciddk/accesslayer/cm"
	"ciddk/clock"
)

// Names of steps in errors.
const (
	opResolveAddr  = "resolve address"
	opResolveRoute = "resolve route"
	opConnect      = "connect"
	opAccept       = "accept"
	opDisconnect   = "disconnect"
	opJoin         = "join"
)

// step is an operation of an ID that has started and not ended. It needs no goroutine: the lower layer calls back with
// its result. Whatever ends it earlier (Close, hot removal, a timeout, the context of a blocking call) cancels ctx, and
// the lower layer then calls back with the context's error.
type step struct {
	id     *ID
	op     string // of its error, as "resolve address"
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  clock.Deadline
	report func(Event) // receives the result, once
	ended  atomic.Bool
}

// newStep starts a step of the ID. A timeout of 0 is none.
func (i *ID) newStep(op string, timeout time.Duration, report func(Event)) *step {
	s := &step{id: i, op: op, report: report}
	s.ctx, s.cancel = context.WithCancelCause(i.ctx)
	if timeout > 0 {
		s.timer.Fire = func() { s.cancel(syscall.ETIMEDOUT) }
		i.m.wheel.Set(&s.timer, i.m.al.Clock().Elapsed()+timeout)
	}
	return s
}

// claim reports whether the step has not ended before, and ends it. Of several results only the first one counts.
func (s *step) claim() bool { return !s.ended.Swap(true) }

// finish puts the ID in a state and reports the result of a claimed step.
func (s *step) finish(to state, e Event) {
	e.Err = s.fail(e.Err)
	s.release()
	s.id.leave(to)
	if to == established {
		s.id.watchPeer()
	}
	s.report(e)
}

// fail returns the error of the step. If the step was cancelled, that is the reason, such as net.ErrClosed.
func (s *step) fail(err error) error {
	isCancelled := errors.Is(err, context.Canceled) || errors.Is(err, cm.ErrClosed)
	if isCancelled && s.ctx.Err() != nil {
		err = context.Cause(s.ctx)
	}
	return s.id.fail(s.op, err)
}

// release ends the timer and the context of a step.
func (s *step) release() {
	s.id.m.wheel.Cancel(&s.timer)
	s.cancel(nil)
}

// await starts a step and waits for its result. When ctx ends, the step is cancelled. start returns no step if the
// operation was completed at once.
func (i *ID) await(ctx context.Context, op string, start func(report func(Event)) (*step, error)) error {
	if err := ctx.Err(); err != nil {
		return i.fail(op, err)
	}
	result := make(chan Event, 1)
	s, err := start(func(e Event) { result <- e })
	if err != nil || s == nil {
		return err
	}
	var e Event
	select {
	case e = <-result:
	case <-ctx.Done():
		s.cancel(ctx.Err())
		e = <-result
	}
	return e.Err
}

// resultType returns ok for a step that succeeded, and failed for any error.
func resultType(err error, ok, failed EventType) EventType {
	if err != nil {
		return failed
	}
	return ok
}

// connectFailure returns the event of a failed StartConnect or StartAccept, with the private data of a REJ.
func connectFailure(err error) Event {
	if r, ok := errors.AsType[*cm.RejectError](err); ok {
		return Event{Type: EventRejected, Private: r.Private, Err: err}
	}
	if r, ok := errors.AsType[*cm.LookupError](err); ok {
		return Event{Type: EventUnreachable, Private: r.Private, Err: err}
	}
	_, unreachable := errors.AsType[*cm.UnreachableError](err)
	if unreachable || errors.Is(err, cm.ErrTimeout) {
		return Event{Type: EventUnreachable, Err: err}
	}
	return Event{Type: EventConnectError, Err: err}
}
