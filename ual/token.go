package ual

import (
	"sync"

	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
)

// receiver is an object with a token: it receives events, and is found by the token in completions.
type receiver struct {
	token uint64

	// The context of the consumer, and its callbacks, which may be nil.
	context      any
	onCompletion func(arg any)
	onEvent      func(ci.Event)
	onNotice     func() // of an object of a service
	ca           *CA    // of a CQ
	drained      func() // returns when no event will be handled any more, because the connection is lost

	mu        sync.Mutex
	changed   sync.Cond
	queue     []schema.Event // that wait for the callback
	running   bool           // a goroutine calls the callbacks
	completed uint64         // completion events whose callback has returned
	async     uint64
	ended     bool // no more events will come: the connection is lost
	fatal     bool // EventLocalFatal was received
}

// tokens is the table of receivers.
type tokens struct {
	mu   sync.RWMutex
	next uint64
	by   map[uint64]*receiver
}

// add assigns a token to the receiver that no other receiver ever had.
func (t *tokens) add(r *receiver) {
	r.changed.L = &r.mu
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.by == nil {
		t.by = map[uint64]*receiver{}
	}
	t.next++
	r.token = t.next
	t.by[r.token] = r
}

func (t *tokens) remove(r *receiver) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.by, r.token)
}

func (t *tokens) find(token uint64) *receiver {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.by[token]
}

// all returns every receiver.
func (t *tokens) all() []*receiver {
	t.mu.RLock()
	defer t.mu.RUnlock()
	list := make([]*receiver, 0, len(t.by))
	for _, r := range t.by {
		list = append(list, r)
	}
	return list
}

// eventEnd is the kind of the event with which a receiver learns that its verbs fail from now on.
const eventEnd schema.EventKind = 0

// wake calls the completion callback of every CQ of a CA, or of all CAs if it is nil, whose verbs fail from now on.
func (c *Client) wake(ca *CA) {
	for _, r := range c.tokens.all() {
		if r.onCompletion != nil && (ca == nil || r.ca == ca) {
			r.post(schema.Event{Kind: eventEnd}, &c.wait)
		}
	}
}

// context returns the consumer's context of a token in a completion.
func (t *tokens) context(token uint64) any {
	if r := t.find(token); r != nil {
		return r.context
	}
	return nil
}

// post hands an event over. Callbacks of one object run one at a time and in order; a callback that blocks delays no
// other object. wait counts the goroutine.
func (r *receiver) post(e schema.Event, wait *sync.WaitGroup) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = append(r.queue, e)
	r.fatal = r.fatal || e.Kind == schema.EventAsync && ci.EventType(e.Type) == ci.EventLocalFatal
	if !r.running {
		r.running = true
		wait.Go(r.run)
	}
}

// run calls the callbacks of all events that wait.
func (r *receiver) run() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.queue) > 0 {
		list := r.queue
		r.queue = nil
		for i := range list {
			r.mu.Unlock()
			r.handle(&list[i])
			r.mu.Lock()
			switch list[i].Kind {
			case schema.EventCompletion:
				r.completed++
			case schema.EventAsync:
				r.async++
			}
			r.changed.Broadcast()
		}
	}
	r.running = false
	r.changed.Broadcast()
}

// handle calls the callback of an event.
func (r *receiver) handle(e *schema.Event) {
	switch {
	case e.Kind == schema.EventNotice:
		if r.onNotice != nil {
			r.onNotice()
		}
	case e.Kind != schema.EventAsync && r.onCompletion != nil:
		r.onCompletion(r.context)
	case e.Kind == eventEnd: // of a CA
		r.onEvent(ci.Event{Context: r.context, Type: ci.EventLocalFatal, Vendor: e.Vendor})
	case e.Kind == schema.EventAsync && r.onEvent != nil:
		r.onEvent(ci.Event{Context: r.context, Type: ci.EventType(e.Type), Port: uint8(e.Port), Vendor: e.Vendor})
	}
}

// await returns when the callbacks of all events have returned that the daemon delivered for the object, as it reported
// when the object was destroyed.
func (r *receiver) await(d *schema.DestroyReply) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.running || !r.ended && (r.completed < d.Completions || r.async < d.Async) {
		r.changed.Wait()
	}
}

// awaitIdle returns when no callback runs.
func (r *receiver) awaitIdle() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.running {
		r.changed.Wait()
	}
}

// isFatal reports whether EventLocalFatal was received.
func (r *receiver) isFatal() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fatal
}

// end wakes await when no more events will come.
func (r *receiver) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	r.changed.Broadcast()
}
