package rvt

import (
	"sync"

	"ciddk/ci"
)

// refs counts an object's dependants and remembers its death: ResourceBusy, a double destroy and the roll-back of a
// failed create are all decided here.
type refs struct {
	mu   sync.Mutex
	n    int
	dead bool
}

// get takes a reference; false when the object is gone.
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

// kill marks the object destroyed unless something depends on it.
func (r *refs) kill(verb string, gone ci.Status) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.dead:
		return fail(verb, gone)
	case r.n > 0:
		return fail(verb, ci.ResourceBusy)
	}
	r.dead = true
	return nil
}
