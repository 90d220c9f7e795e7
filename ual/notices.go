package ual

import (
	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
)

// Do executes a command of package schema that is not a verb and has no descriptors. It is for packages that implement
// services of the daemon, such as ual/services. Errors: those of verbs.
func (c *Client) Do(cmd schema.Command, request, reply any) error {
	if !cmd.IsValid() || schema.Commands[cmd].Data || schema.Commands[cmd].MaxFiles > 0 {
		return &ci.Error{Verb: cmd.Verb(), Status: ci.Unsupported, Detail: "not a command of Client.Do"}
	}
	return c.do(cmd, request, nil, reply)
}

// Notices is an event queue for objects of services.
type Notices struct {
	c *Client
	q *eventQueue
}

// NewNotices creates an event queue. end, if not nil, is called once when no more events will come, because the
// connection is lost or the queue was closed.
func (c *Client) NewNotices(end func()) (*Notices, error) {
	n := &Notices{c: c}
	if end == nil {
		end = func() {}
	}
	var err error
	n.q, err = c.newEventQueue(end)
	if err != nil {
		return nil, err
	}
	return n, nil
}

// Handle returns the handle of the queue in the daemon.
func (n *Notices) Handle() schema.Handle { return n.q.handle }

// Add returns a token for an object. f is called after each event with the token, and may be called without one. Calls
// of one object are made one at a time, and those of different objects are independent.
func (n *Notices) Add(f func()) (token uint64) {
	r := &receiver{onNotice: f}
	n.c.tokens.add(r)
	return r.token
}

// Post has the function of a token called as after an event.
func (n *Notices) Post(token uint64) {
	if r := n.c.tokens.find(token); r != nil {
		r.post(schema.Event{Kind: schema.EventNotice}, &n.c.wait)
	}
}

// Remove makes the token invalid. It does not wait for a running call.
func (n *Notices) Remove(token uint64) {
	if r := n.c.tokens.find(token); r != nil {
		n.c.tokens.remove(r)
	}
}

// Close destroys the queue. The daemon's objects that use it are destroyed before.
func (n *Notices) Close() { n.q.close() }
