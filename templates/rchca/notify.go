package rchca

import (
	"sync"

	"ciddk/ci"
)

// A notifier runs the callbacks of one object in order, one at a time, on a goroutine that exists only while there are
// any. No lock is held during a callback, so it may post, poll and arm. A callback that blocks delays only those of its
// object.
type notifier struct {
	onDone  func(any)
	onEvent func(ci.Event)
	ctx     any

	mu      sync.Mutex
	queue   []func()
	done    bool // a completion callback is queued; it covers later completions, too
	running bool
	closed  bool
	idle    sync.Cond
}

func newNotifier(onDone func(any), onEvent func(ci.Event), arg any) *notifier {
	n := &notifier{onDone: onDone, onEvent: onEvent, ctx: arg}
	n.idle.L = &n.mu
	return n
}

// event queues the callback of an asynchronous event.
func (n *notifier) event(t ci.EventType, port uint8) {
	if n.onEvent != nil {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.add(func() { n.onEvent(ci.Event{Context: n.ctx, Type: t, Port: port}) })
	}
}

// completion queues the completion callback, unless it is queued already.
func (n *notifier) completion() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.onDone == nil || n.done {
		return
	}
	n.done = true
	n.add(func() {
		n.mu.Lock()
		n.done = false
		n.mu.Unlock()
		n.onDone(n.ctx)
	})
}

// add queues a callback. The caller holds n.mu.
func (n *notifier) add(f func()) {
	if n.closed {
		return
	}
	n.queue = append(n.queue, f)
	if !n.running {
		n.running = true
		go n.serve()
	}
}

// serve runs the queued callbacks.
func (n *notifier) serve() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for len(n.queue) > 0 {
		f := n.queue[0]
		n.queue = n.queue[1:]
		n.mu.Unlock()
		f()
		n.mu.Lock()
	}
	n.running = false
	n.idle.Broadcast()
}

// close removes the queued callbacks and waits for the running one. No callback runs afterwards. It makes Destroy a
// drain verb.
func (n *notifier) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed, n.queue = true, nil
	for n.running {
		n.idle.Wait()
	}
}
