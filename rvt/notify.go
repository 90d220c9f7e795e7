package rvt

import (
	"sync"

	"ciddk/ci"
)

// notifier runs the callbacks of an object, one at a time and in order, never on the goroutine that triggered them.
// They run on the goroutine of the notifier's vector. A notifier without a vector has a goroutine of its own, which
// exists only while there are callbacks: a callback that blocks delays only the callbacks of its own object.
type notifier struct {
	mu      sync.Mutex
	idle    *sync.Cond // made by close, when it has to wait
	vector  *vector    // or nil
	queued  bool       // in the vector's queue, or the goroutine exists
	active  bool       // a callback runs
	closed  bool
	due     bool // a completion callback
	events  []ci.Event
	onDue   func(any)
	onEvent func(ci.Event)
	ctx     any
}

// event queues an asynchronous event for the object's consumer.
func (n *notifier) event(t ci.EventType) {
	n.post(ci.Event{Type: t})
}

// post queues an event whose Context is not set yet.
func (n *notifier) post(e ci.Event) {
	if n.onEvent == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.closed {
		e.Context = n.ctx
		n.events = append(n.events, e)
		n.start()
	}
}

// completion makes the completion callback due. Several that have not run yet are one.
func (n *notifier) completion() {
	if n.onDue == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.closed {
		n.due = true
		n.start()
	}
}

// start makes a goroutine run the callbacks. The caller holds mu.
func (n *notifier) start() {
	if n.queued {
		return
	}
	n.queued = true
	if n.vector != nil {
		n.vector.add(n)
		return
	}
	go n.serve()
}

// serve runs callbacks until there are none.
func (n *notifier) serve() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for n.call() {
	}
	n.leave()
}

// turn runs one callback, for the vector, and queues the notifier again if there are more.
func (n *notifier) turn() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.call()
	n.leave()
	if n.due || len(n.events) > 0 {
		n.start()
	}
}

// leave records that no goroutine serves the notifier any more. The caller holds mu.
func (n *notifier) leave() {
	n.queued = false
	if n.idle != nil {
		n.idle.Broadcast()
	}
}

// call runs one callback, if there is one. The caller holds mu, which is released while the callback runs.
func (n *notifier) call() bool {
	if n.closed || !n.due && len(n.events) == 0 {
		return false
	}
	n.active = true
	if n.due {
		n.due = false
		n.mu.Unlock()
		n.onDue(n.ctx)
	} else {
		e := n.events[0]
		n.events = n.events[1:]
		n.mu.Unlock()
		n.onEvent(e)
	}
	n.mu.Lock()
	n.active = false
	return true
}

// close returns when no callback runs or will run, and the notifier's own goroutine has ended. It does not wait for
// other objects of the vector. It would wait for itself if it were called from one of the callbacks, as package ci
// states for drain verbs.
func (n *notifier) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	n.events, n.due = nil, false
	for n.active || n.queued && n.vector == nil {
		if n.idle == nil {
			n.idle = sync.NewCond(&n.mu)
		}
		n.idle.Wait()
	}
}

// handlers are the handlers for events of a CA and its ports.
type handlers struct {
	mu   sync.Mutex
	list []*notifier // the first is OpenCA's
}

func newHandlers(onEvent func(ci.Event), arg any) *handlers {
	return &handlers{list: []*notifier{{onEvent: onEvent, ctx: arg}}}
}

func (h *handlers) post(e ci.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range h.list {
		n.post(e)
	}
}

func (h *handlers) add(n *notifier) {
	h.mu.Lock()
	h.list = append(h.list, n)
	h.mu.Unlock()
}

func (h *handlers) remove(n *notifier) {
	h.mu.Lock()
	for i, m := range h.list {
		if m == n {
			h.list = append(h.list[:i:i], h.list[i+1:]...)
			break
		}
	}
	h.mu.Unlock()
	n.close()
}
