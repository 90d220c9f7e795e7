package services

import (
	"context"
	"sync"

	"ciddk/accesslayer/mads"
	"ciddk/internal/kproxy/schema"
	"ciddk/internal/kproxy/schema/convert"
)

// remote is an object of the daemon with notices and steps. handle is called with notices, one at a time and in order.
type remote struct {
	s      *Services
	token  uint64
	handle func(*schema.Notice)

	mu    sync.Mutex
	h     schema.Handle // 0: not known yet
	due   bool          // an event came before the handle was known
	ended error         // the object is closed, or the connection is lost
	steps map[uint64]*step
}

// step is a step that the daemon executes.
type step struct {
	ctx  context.Context
	stop func() bool // cancels the reaction to the end of the context
	done func(*schema.Notice, error)

	received func(*mads.Received, error) // of an agent's request, instead of done for its outcome
}

// setHandle makes the handle known.
func (r *remote) setHandle(h schema.Handle) {
	r.mu.Lock()
	r.h = h
	due, ended := r.due, r.ended != nil
	r.due = false
	r.mu.Unlock()
	switch {
	case ended: // Close did not know the handle
		_ = r.s.destroy(h)
	case due:
		r.s.notices.Post(r.token)
	}
}

// target returns the handle, or the reason why there is none.
func (r *remote) target() (schema.Handle, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.h, r.ended
}

// take takes the notices that wait in the daemon.
func (r *remote) take() {
	r.mu.Lock()
	h, ended := r.h, r.ended
	if h == 0 {
		r.due = true
	}
	r.mu.Unlock()
	if h == 0 || ended != nil {
		return
	}
	for {
		n := new(schema.Notice)
		if r.s.c.Do(schema.CmdTakeNotice, &schema.TakeNotice{Object: h}, n) != nil {
			return // the object was closed, or the connection is lost: both end the steps
		}
		switch n.Kind {
		case schema.NoticeNone:
			return
		case schema.NoticeOutcome:
			r.outcome(n)
		default:
			r.handle(n)
		}
		if n.Waiting == 0 {
			return
		}
	}
}

// outcome ends a step with its outcome.
func (r *remote) outcome(n *schema.Notice) {
	st := r.removeStep(n.Op)
	if st == nil {
		return
	}
	err := convert.Error(&n.Error)
	if n.Error.Code == schema.ErrorCanceled && st.ctx.Err() != nil {
		err = st.ctx.Err()
	}
	st.done(n, err)
}

func (r *remote) removeStep(op uint64) *step {
	r.mu.Lock()
	st := r.steps[op]
	delete(r.steps, op)
	r.mu.Unlock()
	if st != nil {
		st.stop()
	}
	return st
}

// begin adds a step. done is called once, unless abort is called. When ctx ends, the daemon cancels the step.
func (r *remote) begin(ctx context.Context, done func(*schema.Notice, error)) (op uint64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	op = r.s.op()
	st := &step{ctx: ctx, done: done, stop: func() bool { return true }}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended != nil {
		return 0, r.ended
	}
	if r.steps == nil {
		r.steps = map[uint64]*step{}
	}
	r.steps[op] = st
	return op, nil
}

// started makes the step react to the end of its context.
func (r *remote) started(op uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if st := r.steps[op]; st != nil && st.ctx.Done() != nil {
		st.stop = context.AfterFunc(st.ctx, func() { r.cancel(op) })
	}
}

// cancel has the daemon cancel a step. Its outcome follows.
func (r *remote) cancel(op uint64) {
	if h, err := r.target(); err == nil && h != 0 {
		_ = r.s.do(schema.CmdCancel, &schema.Cancel{Object: h, Op: op}) // otherwise the object has ended
	}
}

// start begins a step and sends its request. done is called once, unless start returns an error.
func (r *remote) start(ctx context.Context, done func(*schema.Notice, error), cmd schema.Command,
	request func(op uint64, h schema.Handle) any) error {
	h, err := r.target()
	if err != nil {
		return err
	}
	op, err := r.begin(ctx, done)
	if err != nil {
		return err
	}
	if err := r.s.do(cmd, request(op, h)); err != nil {
		if r.removeStep(op) == nil {
			return nil // the end of the object has called done
		}
		return err
	}
	r.started(op)
	return nil
}

// end ends the object. The pending steps end with err. It reports false if the object has ended before.
func (r *remote) end(err error) bool {
	r.mu.Lock()
	if r.ended != nil {
		r.mu.Unlock()
		return false
	}
	r.ended = err
	steps := r.steps
	r.steps = nil
	r.mu.Unlock()
	for _, st := range steps {
		st.stop()
		st.done(nil, err)
	}
	return true
}

// close ends the object here and in the daemon.
func (r *remote) close(verb string) error {
	was := r.s.remove(r.token)
	if !r.end(closedError(verb)) && !was {
		return nil
	}
	r.mu.Lock()
	h := r.h
	r.mu.Unlock()
	if h == 0 {
		return nil
	}
	return r.s.destroy(h)
}

// wait waits for the result of a blocking form: start passes its done function to a step.
func wait[T any](start func(done func(T, error)) error) (T, error) {
	type result struct {
		t   T
		err error
	}
	ended := make(chan result, 1)
	if err := start(func(t T, err error) { ended <- result{t, err} }); err != nil {
		var zero T
		return zero, err
	}
	r := <-ended
	return r.t, r.err
}
