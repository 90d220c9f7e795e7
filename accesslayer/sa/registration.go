package sa

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"ciddk/accesslayer"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/clock"
	"ciddk/mad"
)

// A registration is what a port has registered with the administrator: a membership, a service or a subscription. It is
// registered again when the administrator may have lost it, until it is destroyed.
//
// At most one request is in progress, also of all registrations that share the administrator's record. When it has
// ended, advance starts the next one that is necessary.
type registration struct {
	c    *Client
	port mads.Port
	key  any // registrations with equal ports and keys are one for the administrator

	register   func() (*mad.SA, error)
	accept     func(*mad.SA) (renew time.Duration) // takes the response; renew 0: the registration does not end
	unregister func() *mad.SA
	isShared   bool            // the response to an equal registration serves for this one
	onChange   func(err error) // may be nil
	onEnd      func()          // at the end, before waiters go on; may be nil

	calls calls // of onChange, and of the object's other callbacks

	isWanted atomic.Bool // until destroyed; written with mu held
	share    *share      // set by begin

	mu        sync.Mutex
	isHeld    bool // it has been registered
	isStale   bool // it must be registered again
	isBusy    bool // a request is in progress
	isFailing bool // the last attempt to register again failed
	isClosed  bool // no more requests
	isEnded   bool // the destruction is complete, but for callbacks
	failures  int
	timer     clock.Timer // of the next attempt or renewal; nil: none
	cancel    context.CancelFunc
	created   func(error) // called with the outcome of the first attempt, then nil
	creating  func() bool // ends the wait for the context of the creation
	ended     chan struct{}
	endErr    error
	onDone    []func(error)
}

var _ watcher = (*registration)(nil)

// begin registers for the first time, and calls created with the outcome.
func (r *registration) begin(ctx context.Context, created func(error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, err := r.c.administrator(r.port); err != nil {
		return err
	}
	r.isWanted.Store(true)
	r.created, r.ended = created, make(chan struct{})
	if err := r.c.watch(r); err != nil {
		return err
	}
	r.mu.Lock()
	if ctx.Done() != nil {
		r.creating = context.AfterFunc(ctx, func() { r.fail(ctx.Err()) })
	}
	r.mu.Unlock()
	r.advance()
	return nil
}

// advance starts the next request that is necessary.
func (r *registration) advance() {
	r.mu.Lock()
	if r.isBusy || r.isClosed {
		r.mu.Unlock()
		return
	}
	var req *mad.SA
	var err error
	done := r.unregistered
	switch {
	case r.isWanted.Load() && (!r.isHeld || r.isStale):
		if !r.share.acquire(r) {
			r.mu.Unlock()
			return
		}
		r.isStale = false
		req, err = r.register()
		done = func(resp *mad.SA, err error) { r.registered(req, resp, err) }
	case r.isWanted.Load():
		r.mu.Unlock()
		return
	case r.share.held() && !r.c.hasOther(r):
		if !r.share.acquire(r) {
			r.mu.Unlock()
			return
		}
		r.share.forget()
		req = r.unregister()
	default:
		r.end(nil)
		return
	}
	r.isBusy = true
	r.stopTimer()
	if r.isShared && err == nil && r.isWanted.Load() {
		if resp := r.share.response(req); resp != nil {
			r.mu.Unlock()
			go done(resp, nil) // not on the caller's stack, which may be a callback's
			return
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	r.mu.Unlock()
	if err == nil {
		err = r.c.StartDo(ctx, r.port, req, done)
	}
	if err != nil {
		go done(nil, err) // as above
	}
}

// registered is called with the outcome of a request to register.
func (r *registration) registered(req, resp *mad.SA, err error) {
	var renew time.Duration
	switch {
	case err == nil:
		renew = r.accept(resp)
		r.share.registered(req, resp)
	case mayHaveArrived(err):
		r.share.registered(nil, nil)
	}
	r.mu.Lock()
	r.idle()
	created, isFirst := r.created, r.created != nil
	r.created = nil
	wasFailing := r.isFailing
	r.isFailing = err != nil
	if r.creating != nil {
		r.creating()
		r.creating = nil
	}
	switch {
	case err == nil:
		r.isHeld, r.failures = true, 0
		if renew > 0 && r.isWanted.Load() {
			r.timer = r.c.al.Clock().AfterFunc(renew, r.renew)
		}
	case isFirst:
		r.isWanted.Store(false)
	default:
		r.isStale = true
	}
	retry := err != nil && !isFirst && r.isWanted.Load() && !r.isClosed
	if retry {
		r.timer = r.c.al.Clock().AfterFunc(r.delay(), func() { r.advance() })
		r.failures++
	}
	isReported := !isFirst && r.isWanted.Load() && !r.isClosed && (err == nil || !wasFailing)
	r.mu.Unlock()
	if isFirst {
		created(err)
	}
	if isReported && r.onChange != nil {
		r.calls.post(func() { r.onChange(err) })
	}
	r.share.release(r)
	if !retry {
		r.advance()
	}
}

// mayHaveArrived reports whether the administrator may have executed a request that ended with err.
func mayHaveArrived(err error) bool {
	return errors.Is(err, ci.Timeout) || errors.Is(err, context.Canceled)
}

const maxRegisterShift = 6

// delay returns the time until the next attempt: Config.Timeout, doubled with each failure up to 64 times.
func (r *registration) delay() time.Duration {
	return r.c.cfg.Timeout << min(r.failures, maxRegisterShift)
}

// unregistered is called with the outcome of a request to end the registration.
func (r *registration) unregistered(_ *mad.SA, err error) {
	r.share.unregistered()
	defer r.share.release(r)
	r.mu.Lock()
	r.idle()
	if _, ok := errors.AsType[*StatusError](err); ok { // it has lost the registration already
		err = nil
	}
	r.end(err)
}

// idle notes that no request is in progress. r.mu is held.
func (r *registration) idle() {
	r.isBusy = false
	if r.cancel != nil {
		r.cancel()
		r.cancel = nil
	}
}

// renew is called by the timer before a lease ends.
func (r *registration) renew() {
	r.mu.Lock()
	r.isStale = true
	r.mu.Unlock()
	r.advance()
}

// portEvent implements watcher.
func (r *registration) portEvent(port mads.Port, e accesslayer.PortEvent) {
	if port != r.port || !losesRegistrations(e.Type) {
		return
	}
	r.mu.Lock()
	r.isStale, r.failures = true, 0
	r.mu.Unlock()
	r.advance()
}

// fail ends a registration whose creation has not ended.
func (r *registration) fail(err error) {
	r.mu.Lock()
	created := r.created
	if created == nil {
		r.mu.Unlock()
		return
	}
	r.created = nil
	r.isWanted.Store(false)
	cancel := r.cancel
	r.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	created(err)
	r.advance()
}

// destroy begins the end of the registration. It returns ErrClosed if that has begun before.
func (r *registration) destroy(onDone func(error)) error {
	r.mu.Lock()
	if !r.isWanted.Load() {
		r.mu.Unlock()
		return ErrClosed
	}
	r.isWanted.Store(false)
	if onDone != nil {
		r.onDone = append(r.onDone, onDone)
	}
	if r.isBusy && r.cancel != nil { // a request to register
		r.cancel()
	}
	r.mu.Unlock()
	r.advance()
	return nil
}

// end completes the destruction. r.mu is held and released.
func (r *registration) end(err error) {
	if r.isEnded {
		r.mu.Unlock()
		return
	}
	onDone := r.onDone
	r.endErr, r.onDone = err, nil
	r.isClosed, r.isEnded = true, true
	r.stopTimer()
	r.mu.Unlock()
	r.c.unwatch(r)
	if r.onEnd != nil {
		r.onEnd()
	}
	r.calls.finish(func() {
		close(r.ended)
		for _, f := range onDone {
			f(err)
		}
	})
}

// close ends the registration with its client. It sends the request that ends it, and does not wait for the response.
func (r *registration) close() {
	r.mu.Lock()
	created, isHeld := r.created, r.share.held() || r.isBusy
	isEnded := r.isEnded
	r.created, r.isClosed = nil, true
	r.isWanted.Store(false)
	r.mu.Unlock()
	if isEnded {
		return
	}
	if isHeld && !r.c.hasOther(r) {
		r.c.sendLast(r.port, r.unregister())
	}
	if created != nil {
		go created(ErrClosed)
	}
	r.mu.Lock()
	r.end(ErrClosed)
}

// stopTimer stops the timer. r.mu is held.
func (r *registration) stopTimer() {
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
}

// sendLast sends a request without waiting for its response, which the agent is closed before.
func (c *Client) sendLast(port mads.Port, req *mad.SA) {
	c.mu.Lock()
	a := c.agents[port]
	c.mu.Unlock()
	to, err := c.administrator(port)
	if a == nil || err != nil {
		return
	}
	b := encode(req)
	_ = a.Send(&mads.Message{To: to, MAD: b[:]}) // if it is lost, the manager removes the port's registrations
}

// hasOther reports whether another registration needs what the administrator holds for r.
func (c *Client) hasOther(r *registration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for w := range c.watchers {
		o, ok := w.(*registration)
		if ok && o != r && o.port == r.port && o.key == r.key && o.isWanted.Load() {
			return true
		}
	}
	return false
}

// Destroy ends the registration, and waits for the administrator's response and for callbacks that run. Afterwards no
// callback runs or will run. It must not be called from a callback. The object is destroyed also after an error of the
// request. A second Destroy returns ErrClosed.
func (r *registration) Destroy() error {
	err := r.destroy(nil)
	<-r.ended
	if err != nil {
		return err
	}
	return r.endErr
}

// DestroyAsync begins Destroy, and returns. onDone, which may be nil, is called with what Destroy would return, after
// all other callbacks. Errors: ErrClosed, for a second call.
func (r *registration) DestroyAsync(onDone func(error)) error { return r.destroy(onDone) }

// Port returns the port.
func (r *registration) Port() mads.Port { return r.port }
