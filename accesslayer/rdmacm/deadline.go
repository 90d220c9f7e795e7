package rdmacm

import (
	"context"
	"os"
	"sync"
	"time"
)

// deadline is a context that ends at a time that can be changed, as net.Conn needs it for each direction.
type deadline struct {
	mu    sync.Mutex
	timer *time.Timer
	ctx   *deadlineCtx
}

// deadlineCtx is the context until its deadline has passed. A deadline that is changed afterwards has a new one.
type deadlineCtx struct{ done chan struct{} }

var _ context.Context = (*deadlineCtx)(nil)

// Deadline implements context.Context. The time may change, so it returns none.
func (c *deadlineCtx) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done implements context.Context.
func (c *deadlineCtx) Done() <-chan struct{} { return c.done }

// Value implements context.Context.
func (c *deadlineCtx) Value(any) any { return nil }

// Err implements context.Context: os.ErrDeadlineExceeded after the deadline.
func (c *deadlineCtx) Err() error {
	select {
	case <-c.done:
		return os.ErrDeadlineExceeded
	default:
		return nil
	}
}

func newDeadline() *deadline { return &deadline{ctx: &deadlineCtx{done: make(chan struct{})}} }

// context returns the context of calls that begin now.
func (d *deadline) context() *deadlineCtx {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ctx
}

// set changes the deadline to t, also for calls in progress; the zero time is none. Times of net.Conn are those of the
// system's clock.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	if d.ctx.Err() != nil {
		d.ctx = &deadlineCtx{done: make(chan struct{})}
	}
	if t.IsZero() {
		return
	}
	ctx := d.ctx
	left := time.Until(t)
	if left <= 0 {
		close(ctx.done)
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(left, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.timer == timer { // not changed meanwhile
			d.timer = nil
			close(ctx.done)
		}
	})
	d.timer = timer
}

// stop ends the timer.
func (d *deadline) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}
