package mlx4

import (
	"errors"
	"sync"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/internal/mlx4/fw"
)

// refs counts the objects that depend on an object. Every object has one. It implements the three rules of Destroy:
// Destroy fails with ResourceBusy while another object depends on this one; verbs of a destroyed object fail with its
// Invalid…Handle; and no object can depend on a destroyed one.
type refs struct {
	mu        sync.Mutex
	n         int
	destroyed atomic.Bool  // it changes with mu
	running   sync.RWMutex // verbs that are under way read it
}

// get adds a dependent object. It returns false if this one is destroyed.
func (r *refs) get() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.destroyed.Load() {
		return false
	}
	r.n++
	return true
}

// put removes a dependent object.
func (r *refs) put() {
	r.mu.Lock()
	r.n--
	r.mu.Unlock()
}

// use begins a verb, or work of the driver, during which the object remains: Destroy waits for done. It returns false
// if the object is destroyed. Uses of an object do not nest.
func (r *refs) use() bool {
	r.running.RLock()
	if r.destroyed.Load() {
		r.running.RUnlock()
		return false
	}
	return true
}

// done ends a use.
func (r *refs) done() { r.running.RUnlock() }

// alive reports whether the object is not destroyed.
func (r *refs) alive() bool { return !r.destroyed.Load() }

// beginDestroy marks the object as destroyed, and waits for its uses. It fails if the object is destroyed already, with
// the status invalid, or if another object depends on it.
func (r *refs) beginDestroy(verb string, invalid ci.Status) error {
	if err := r.markDestroyed(verb, invalid); err != nil {
		return err
	}
	r.running.Lock()
	defer r.running.Unlock()
	return nil
}

func (r *refs) markDestroyed(verb string, invalid ci.Status) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.destroyed.Load():
		return fail(verb, invalid, "")
	case r.n > 0:
		return fail(verb, ci.ResourceBusy, "other objects depend on it")
	}
	r.destroyed.Store(true)
	return nil
}

// revive takes beginDestroy back.
func (r *refs) revive() { r.destroyed.Store(false) }

// A pool counts the objects of a kind, up to the limit that CA.Query returns.
type pool struct {
	mu  sync.Mutex
	n   int
	max int
}

func (p *pool) take(verb string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.n >= p.max {
		return fail(verb, ci.InsufficientResources, "the limit of the adapter is reached")
	}
	p.n++
	return nil
}

func (p *pool) give() {
	p.mu.Lock()
	p.n--
	p.mu.Unlock()
}

func (p *pool) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n
}

// undo is a list of functions that take steps of a verb back, if the verb fails.
type undo []func()

func (u *undo) add(f func()) { *u = append(*u, f) }

// run takes all steps back, the last one first, if the verb has failed.
func (u *undo) run(err *error) {
	if *err == nil {
		return
	}
	for i := range *u {
		(*u)[len(*u)-1-i]()
	}
}

// fail returns a ci.Error.
func fail(verb string, s ci.Status, detail string) *ci.Error {
	return &ci.Error{Verb: verb, Status: s, Detail: detail}
}

// firmwareError returns the error of a verb whose command has failed.
func firmwareError(verb string, err error) error {
	if errors.Is(err, fw.ErrFailed) || errors.Is(err, fw.ErrClosed) {
		return &ci.Error{Verb: verb, Status: ci.InvalidState, Detail: "the adapter has failed", Err: err}
	}
	s := ci.StatusOf(err)
	if s == ci.UnknownError || s == ci.Success {
		s = ci.ErrorStatus
	}
	return &ci.Error{Verb: verb, Status: s, Err: err}
}
