package rchca

import (
	"sync"

	"ciddk/ci"
)

// refs counts what depends on an object, and remembers its death. Every object has one. It makes the three rules of Destroy true: ResourceBusy
// while something depends on the object, its Invalid…Handle afterwards, and no new dependant of an object that is dying.
type refs struct {
	mu   sync.Mutex
	n    int
	dead bool
}

// get adds a dependant; false if the object is dead.
func (r *refs) get() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.dead {
		r.n++
	}
	return !r.dead
}

// put takes a dependant away.
func (r *refs) put() {
	r.mu.Lock()
	r.n--
	r.mu.Unlock()
}

// alive is for verbs that need nothing but the object.
func (r *refs) alive() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.dead
}

// kill is the judgement of a Destroy. What the hardware does about it follows; nobody else gets here a second time.
func (r *refs) kill(verb string, gone ci.Status) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.dead:
		return fail(verb, gone, "")
	case r.n > 0:
		return fail(verb, ci.ResourceBusy, "objects that were made from it, or use it, exist")
	}
	r.dead = true
	return nil
}

// getAll takes a reference on each, or on none: then it tells which one is dead.
func getAll(list ...*refs) (dead int, ok bool) {
	for i, r := range list {
		if !r.get() {
			for _, r := range list[:i] {
				r.put()
			}
			return i, false
		}
	}
	return 0, true
}

// pool counts objects of a kind against the limit that CA.Query names.
type pool struct {
	mu  sync.Mutex
	n   int
	max int
}

func (p *pool) take(verb string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.n >= p.max {
		return fail(verb, ci.InsufficientResources, "as many exist as the adapter has")
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

func fail(verb string, s ci.Status, detail string) error {
	return &ci.Error{Verb: verb, Status: s, Detail: detail}
}

// broken words a failure of the hardware.
func broken(verb string, err error) error {
	return &ci.Error{Verb: verb, Status: ci.Timeout, Detail: "the adapter failed the command", Err: err}
}
