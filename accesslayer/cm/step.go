package cm

import (
	"context"

	"ciddk/mad"
)

// A step is a call that waits for the peer of a connection: Connect, Accept, LoadAlternate or Disconnect. A conn has at
// most one step at a time. conn.mu guards it. finish ends it exactly once.
type step struct {
	private []byte   // private data of the DREP that ended Disconnect
	apr     *mad.APR // APR that ended LoadAlternate
	err     error
	stop    func() bool // cancels the reaction to the end of the context
	ended   func(*step) // called once with conn.mu held; must not block
}

// waitingStep returns a step for a call that blocks, and a channel that is closed when the step has ended.
func waitingStep() (*step, <-chan struct{}) {
	ended := make(chan struct{})
	return &step{ended: func(*step) { close(ended) }}, ended
}

// callbackStep returns a step that calls done when it has ended. The call is delivered in order with the connection's
// events.
func (c *conn) callbackStep(done func(*step)) *step {
	return &step{ended: func(s *step) { c.notify(notice{outcome: func() { done(s) }}) }}
}

// begin makes s the connection's current step. If ctx ends before the step does, the step ends with the context's error
// and abandon is called with c.mu held. The caller holds c.mu.
func (c *conn) begin(ctx context.Context, s *step, abandon func()) {
	c.step = s
	s.stop = afterDone(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.step == s {
			c.finish(ctx.Err())
			abandon()
		}
	})
}

// finish ends the connection's current step with err. It reports whether there was a step. The caller holds c.mu.
func (c *conn) finish(err error) bool {
	s := c.step
	if s == nil {
		return false
	}
	c.step = nil
	s.stop()
	s.err = err
	s.ended(s)
	return true
}

// afterDone arranges that f is called on a goroutine of its own when ctx ends. The returned function cancels that. With
// the contexts of package context, no goroutine exists before ctx ends.
func afterDone(ctx context.Context, f func()) (stop func() bool) {
	if ctx.Done() == nil {
		return func() bool { return true }
	}
	return context.AfterFunc(ctx, f)
}

// checkDone returns InvalidParameter if the done function of a step is nil.
func checkDone(verb string, isNil bool) error {
	if isNil {
		return invalid(verb, "done is nil")
	}
	return nil
}
