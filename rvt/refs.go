package rvt

import (
	"sync"

	"ciddk/ci"
)

// refs counts the dependants of an object and records its destruction. It is the one place that decides on
// ResourceBusy, a second Destroy and the undoing of a create that failed.
type refs struct {
	mu   sync.Mutex
	n    int
	dead bool
}

// get takes a reference. It reports false if the object is destroyed.
func (r *refs) get() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dead {
		return false
	}
	r.n++
	return true
}

func (r *refs) put() {
	r.mu.Lock()
	r.n--
	r.mu.Unlock()
}

// alive reports whether the object has not been destroyed.
func (r *refs) alive() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.dead
}

// kill marks the object as destroyed. It fails if something depends on it.
func (r *refs) kill(verb string, destroyed ci.Status) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.dead:
		return fail(verb, destroyed)
	case r.n > 0:
		return fail(verb, ci.ResourceBusy)
	}
	r.dead = true
	return nil
}
