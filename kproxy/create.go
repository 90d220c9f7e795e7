package kproxy

import (
	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
)

// create is a whole create: the object gets its place in the table, call creates it in the access layer, and reply, if
// not nil, builds the reply; otherwise the reply is schema.Created.
func (c *Session) create(verb string, o, parent *object, p private, call func() (destroyable, error),
	reply func() (*Result, *schema.UserBufferReply), uses ...*object) (*Result, error) {
	if err := c.reserve(verb, o, parent, uses...); err != nil {
		return nil, err
	}
	made, err := call()
	if err != nil {
		o.completions.forget(o, &o.completed)
		o.async.forget(o, &o.delivered)
		c.remove(o)
		return nil, err
	}
	o.al = made
	var result *Result
	var user *schema.UserBufferReply
	if reply != nil {
		result, user = reply()
	} else {
		created := &schema.Created{Handle: o.handle}
		result, user = &Result{Body: created}, &created.User
	}
	c.commit(o)
	result.made = o.handle
	return p.copyOut(user, result), nil
}

// list removes what is nil, and what occurs twice: an object is used once, however many roles it has.
func list(objects ...*object) []*object {
	var out []*object
	for _, o := range objects {
		if o == nil {
			continue
		}
		twice := false
		for _, x := range out {
			twice = twice || x == o
		}
		if !twice {
			out = append(out, o)
		}
	}
	return out
}

// optional is lookup for a handle that may be zero.
func (c *Session) optional(verb string, k schema.Kind, h schema.Handle) (*object, error) {
	if h == 0 {
		return nil, nil
	}
	return c.lookup(verb, k, h)
}

// queueOf returns the event queue of an object from optional, which may be nil.
func queueOf(o *object) *eventQueue {
	if o == nil {
		return nil
	}
	return o.queue
}

// asObject returns the access layer's object as T, and the zero T for no object.
func asObject[T ci.Object](o *object) (t T) {
	if o != nil {
		t = o.al.(T)
	}
	return t
}
