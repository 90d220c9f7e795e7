package ual

import (
	"sync"

	"ciddk/ci"
	"ciddk/kproxy/schema"
)

// receiver is an object with a token: it receives events, and is found by the token in completions.
type receiver struct {
	token uint64

	// The context of the consumer, and its callbacks, which may be nil.
	context      any
	onCompletion func(ctx any)
	onEvent      func(ci.Event)
	drained      func() // returns when no event will be handled any more, because the connection is lost

	mu               sync.Mutex
	changed          sync.Cond
	handledCompleted uint64 // completion events whose callback has returned
	handledAsync     uint64
	ended            bool // no more events will come: the connection is lost
}

// tokens is the table of receivers.
type tokens struct {
	mu   sync.RWMutex
	next uint64
	by   map[uint64]*receiver
}

// add gives the receiver a token that no other receiver ever had.
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

// context returns the consumer's context of a token in a completion.
func (t *tokens) context(token uint64) any {
	if r := t.find(token); r != nil {
		return r.context
	}
	return nil
}

// handle calls the callback of an event.
func (r *receiver) handle(e *schema.Event) {
	switch e.Kind {
	case schema.EventCompletion:
		if r.onCompletion != nil {
			r.onCompletion(r.context)
		}
	case schema.EventAsync:
		if r.onEvent != nil {
			r.onEvent(ci.Event{Context: r.context, Type: ci.EventType(e.Type), Port: uint8(e.Port), Vendor: e.Vendor})
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.Kind == schema.EventCompletion {
		r.handledCompleted++
	} else {
		r.handledAsync++
	}
	r.changed.Broadcast()
}

// await returns when the callbacks of all events have returned that the daemon delivered for the object, as it reported when
// the object was destroyed.
func (r *receiver) await(d *schema.DestroyReply) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for !r.ended && (r.handledCompleted < d.Completions || r.handledAsync < d.Async) {
		r.changed.Wait()
	}
}

// end wakes await when no more events will come.
func (r *receiver) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	r.changed.Broadcast()
}
