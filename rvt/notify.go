package rvt

import (
	"sync"

	"ciddk/ci"
)

// notifier runs the callbacks of an object, one at a time and in order. They run on a goroutine that exists only while
// there are any, never on the goroutine that triggered them. A callback that blocks delays only the callbacks of its
// own object.
type notifier struct {
	mu      sync.Mutex
	idle    *sync.Cond // made by close, when it has to wait
	running bool
	closed  bool
	due     bool // a completion callback
	events  []ci.Event
	onDue   func(any)
	onEvent func(ci.Event)
	ctx     any
}

// event queues an asynchronous event for the object's consumer.
func (n *notifier) event(t ci.EventType, port uint8, vendor uint64) {
	if n.onEvent == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.closed {
		n.events = append(n.events, ci.Event{Context: n.ctx, Type: t, Port: port, Vendor: vendor})
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

func (n *notifier) start() {
	if !n.running {
		n.running = true
		go n.serve()
	}
}

func (n *notifier) serve() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for !n.closed && (n.due || len(n.events) > 0) {
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
	}
	n.running = false
	if n.idle != nil {
		n.idle.Broadcast()
	}
}

// close returns when no callback runs or will run. It would wait for itself if it were called from one of them, as
// package ci states for drain verbs.
func (n *notifier) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	n.events, n.due = nil, false
	for n.running {
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

func newHandlers(onEvent func(ci.Event), ctx any) *handlers {
	return &handlers{list: []*notifier{{onEvent: onEvent, ctx: ctx}}}
}

func (h *handlers) event(t ci.EventType, port uint8) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range h.list {
		n.event(t, port, 0)
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
