package driver

import (
	"sync"

	"ciddk/ci"
)

// maxEvents is how many events of an object can wait. An adapter that raises events without end, or a callback that
// blocks, must not use up the memory.
const maxEvents = 1 << 12

// A Notifier runs the callbacks of one object, one at a time, never on the goroutine that triggers them. Events are
// delivered in order, and completions before events. No lock is held during a callback, so it may post, poll and arm.
//
// A Notifier without a Vector has a goroutine of its own, which exists only while there are callbacks: a callback that
// blocks delays only the callbacks of its own object. The exported fields are set before the first use.
type Notifier struct {
	OnCompletion func(any)      // may be nil
	OnEvent      func(ci.Event) // may be nil
	Context      any            // the argument of OnCompletion, and Context of the events
	Vector       *Vector        // the completion vector that runs the callbacks, or nil

	mu     sync.Mutex
	idle   *sync.Cond // made by the first method that waits
	queued bool       // in the vector's queue, or the goroutine exists
	active bool       // a callback runs
	closed bool
	due    bool // a completion callback
	events []ci.Event
}

// Event makes the event callback due, with Context set. If 4,096 events wait, the event is lost, unless it is
// ci.EventLocalFatal.
func (n *Notifier) Event(e ci.Event) {
	if n.OnEvent == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed || len(n.events) >= maxEvents && e.Type != ci.EventLocalFatal {
		return
	}
	e.Context = n.Context
	n.events = append(n.events, e)
	n.start()
}

// Completion makes the completion callback due. Several that have not run yet are one.
func (n *Notifier) Completion() {
	if n.OnCompletion == nil {
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
func (n *Notifier) start() {
	if n.queued {
		return
	}
	n.queued = true
	if n.Vector != nil {
		n.Vector.add(n)
		return
	}
	go n.serve()
}

// serve runs callbacks until there are none.
func (n *Notifier) serve() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for n.call() {
	}
	n.leave()
}

// turn runs one callback, for the vector, and queues the notifier again if there are more.
func (n *Notifier) turn() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.call()
	n.leave()
	if n.due || len(n.events) > 0 {
		n.start()
	}
}

// leave records that no goroutine serves the notifier any more. The caller holds mu.
func (n *Notifier) leave() {
	n.queued = false
	if n.idle != nil {
		n.idle.Broadcast()
	}
}

// call runs one callback, if there is one. The caller holds mu, which is released while the callback runs.
func (n *Notifier) call() bool {
	if n.closed || !n.due && len(n.events) == 0 {
		return false
	}
	n.active = true
	if n.due {
		n.due = false
		n.mu.Unlock()
		n.OnCompletion(n.Context)
	} else {
		e := n.events[0]
		n.events = n.events[1:]
		n.mu.Unlock()
		n.OnEvent(e)
	}
	n.mu.Lock()
	n.active = false
	return true
}

// Close drops the callbacks that have not run, and returns when no callback runs or will run and the notifier's own
// goroutine has ended. It does not wait for other objects of the vector. It makes Destroy a drain verb: called from one
// of the callbacks, it would wait for itself.
func (n *Notifier) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	n.events, n.due = nil, false
	for n.active || n.queued && n.Vector == nil {
		n.wait()
	}
}

// Flush returns when the callbacks that are due have run, and those that become due in the meantime.
func (n *Notifier) Flush() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for n.active || n.queued {
		n.wait()
	}
}

// wait waits for the end of a callback. The caller holds mu.
func (n *Notifier) wait() {
	if n.idle == nil {
		n.idle = sync.NewCond(&n.mu)
	}
	n.idle.Wait()
}
