package rvt

import (
	"fmt"
	"sync"

	"ciddk/ci"
)

// refs counts an object's dependants and remembers its death: ResourceBusy, a double destroy and the roll-back of a failed create
// are all decided here.
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

// alive tells whether the object has not been destroyed.
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

func fail(verb string, s ci.Status) error { return &ci.Error{Verb: verb, Status: s} }

func failf(verb string, s ci.Status, detail string) error {
	return &ci.Error{Verb: verb, Status: s, Detail: detail}
}

// outside refuses a number that is not in its range.
func outside(verb string, s ci.Status, what string, got, least, most int) error {
	return failf(verb, s, fmt.Sprintf("%s is %d, want %d to %d", what, got, least, most))
}

// handle refuses an argument that is no live object of this HCA, with its kind's status; it names the argument.
func handle(verb string, s ci.Status, arg string, o any) error {
	if ci.IsNil(o) {
		return failf(verb, s, arg+" is nil")
	}
	return failf(verb, s, arg+" is destroyed, or not an object of this HCA")
}

func failErr(verb string, s ci.Status, err error) error {
	return &ci.Error{Verb: verb, Status: s, Err: err}
}
