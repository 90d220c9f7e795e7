package rchca

import (
	"sync"

	"ciddk/ci"
)

// refs counts the objects that depend on an object. Every object has one. It implements the three rules of Destroy:
// Destroy fails with ResourceBusy while another object depends on this one; verbs of a destroyed object fail with its
// Invalid…Handle; and no object can depend on a destroyed one.
type refs struct {
	mu        sync.Mutex
	n         int
	destroyed bool
}

// get adds a dependent object. It returns false if this one is destroyed.
func (r *refs) get() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.destroyed {
		r.n++
	}
	return !r.destroyed
}

// put removes a dependent object.
func (r *refs) put() {
	r.mu.Lock()
	r.n--
	r.mu.Unlock()
}

// alive reports whether the object is not destroyed.
func (r *refs) alive() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.destroyed
}

// beginDestroy marks the object as destroyed. It fails if the object is destroyed already, with the status invalid, or
// if another object depends on it. The caller then destroys it in the hardware.
func (r *refs) beginDestroy(verb string, invalid ci.Status) error {
	return r.destroyIf(verb, invalid, func() error { return nil })
}

// destroyIf is beginDestroy if the hardware decides whether the object can be destroyed: an error of command keeps it.
func (r *refs) destroyIf(verb string, invalid ci.Status, command func() error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.destroyed:
		return fail(verb, invalid, "")
	case r.n > 0:
		return fail(verb, ci.ResourceBusy, "other objects depend on it")
	}
	err := command()
	r.destroyed = err == nil
	return err
}

// getAll adds a dependent object to all of list, or to none. In the second case it returns the index of a destroyed
// one.
func getAll(list ...*refs) (destroyed int, ok bool) {
	for i, r := range list {
		if !r.get() {
			putAll(list[:i])
			return i, false
		}
	}
	return 0, true
}

// putAll removes a dependent object of all of list.
func putAll(list []*refs) {
	for _, r := range list {
		r.put()
	}
}

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

// fail returns a ci.Error.
func fail(verb string, s ci.Status, detail string) error {
	return &ci.Error{Verb: verb, Status: s, Detail: detail}
}

// commandError returns the error of a command that the hardware did not carry out.
func commandError(verb string, err error) error {
	return &ci.Error{Verb: verb, Status: ci.Timeout, Detail: "the adapter did not carry out the command", Err: err}
}
