package cm

import (
	"context"

	"ciddk/mad"
)

// A step is a call that waits for the peer of a connection: Connect, Accept, LoadAlternate or Disconnect. conn.mu guards it. A conn has at most one at a
// time, and finish ends it exactly once.
type step struct {
	private []byte   // private data of the DREP that ended Disconnect
	apr     *mad.APR // the APR that ended LoadAlternate
	err     error
	stop    func() bool // ends the wait for the context
	ended   func(*step) // called once with conn.mu held; it does not block
}

// waitingStep returns a step of a blocking call and the channel that is closed when the step has ended.
func waitingStep() (*step, <-chan struct{}) {
	ended := make(chan struct{})
	return &step{ended: func(*step) { close(ended) }}, ended
}

// callbackStep returns a step that calls done when it has ended. The call is delivered in order with the events of the connection.
func (c *conn) callbackStep(done func(*step)) *step {
	return &step{ended: func(s *step) { c.notify(notice{outcome: func() { done(s) }}) }}
}

// begin makes s the step that waits. When ctx ends before the step does, the step ends with the context's error, and abandon is then called with c.mu
// held. c.mu is held.
func (c *conn) begin(ctx context.Context, s *step, abandon func()) {
	c.waiting = s
	s.stop = afterDone(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.waiting == s {
			c.finish(ctx.Err())
			abandon()
		}
	})
}

// finish ends the step that waits. It reports whether there was one. c.mu is held.
func (c *conn) finish(err error) bool {
	s := c.waiting
	if s == nil {
		return false
	}
	c.waiting = nil
	s.stop()
	s.err = err
	s.ended(s)
	return true
}

// afterDone has f called on its own goroutine when ctx ends, and returns the function that prevents the call. With contexts of package context, there is
// no goroutine before ctx ends.
func afterDone(ctx context.Context, f func()) (stop func() bool) {
	if ctx.Done() == nil {
		return func() bool { return true }
	}
	return context.AfterFunc(ctx, f)
}

// checkDone rejects a nil done function.
func checkDone(verb string, isNil bool) error {
	if isNil {
		return invalid(verb, "done is nil")
	}
	return nil
}
