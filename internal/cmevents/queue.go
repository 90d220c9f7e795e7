// Package cmevents delivers the events of a connection, for implementations of cm.Conn outside package cm.
package cmevents

import (
	"context"
	"slices"
	"sync"

	"ciddk/accesslayer/cm"
)

// Queue has the events of a connection, and the outcomes of its steps, that were not delivered. Call Init first. All
// other methods may be called concurrently.
type Queue struct {
	conn cm.Conn

	mu           sync.Mutex
	queue        []delivery
	onEvent      func(cm.Conn, cm.Event)
	isDelivering bool
	over         bool          // no more events
	ready        chan struct{} // closed when Next must look again
}

// delivery is an event, or the outcome of a step, that has not been delivered.
type delivery struct {
	event   cm.Event
	outcome func() // nil: an event
}

// Init sets the connection whose events these are, and the function that receives them: nil for Next.
func (q *Queue) Init(c cm.Conn, onEvent func(cm.Conn, cm.Event)) {
	q.conn, q.onEvent, q.ready = c, onEvent, make(chan struct{})
}

// Emit queues an event. After EventTimeWaitExit there are no more.
func (q *Queue) Emit(e cm.Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.over {
		return
	}
	if n := len(q.queue); n > 0 && isReplaced(&q.queue[n-1], &e) {
		q.queue[n-1].event = e
	} else {
		q.queue = append(q.queue, delivery{event: e})
	}
	q.over = e.Type == cm.EventTimeWaitExit
	q.wake()
}

// isReplaced reports whether an event that waits is replaced by the next one, so that no peer can make the queue grow.
func isReplaced(d *delivery, e *cm.Event) bool {
	isRepeatable := e.Type == cm.EventDelayed || e.Type == cm.EventAlternate
	return d.outcome == nil && d.event.Type == e.Type && isRepeatable
}

// Deliver queues the outcome of a step.
func (q *Queue) Deliver(f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue = append(q.queue, delivery{outcome: f})
	q.wake()
}

// OnEvent has events delivered to f, unless it is nil or there is another function.
func (q *Queue) OnEvent(f func(cm.Conn, cm.Event)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if f != nil && q.onEvent == nil && !q.over {
		q.onEvent = f
		q.wake()
	}
}

// wake starts the delivery. mu is held.
func (q *Queue) wake() {
	close(q.ready)
	q.ready = make(chan struct{})
	if !q.isDelivering && q.deliverable() >= 0 {
		q.isDelivering = true
		go q.run()
	}
}

// deliverable returns the index of the first delivery that run makes, or -1. Events wait for Next if onEvent is nil.
// mu is held.
func (q *Queue) deliverable() int {
	return slices.IndexFunc(q.queue, func(d delivery) bool { return d.outcome != nil || q.onEvent != nil })
}

// run calls onEvent and the outcomes of steps, one at a time and in order.
func (q *Queue) run() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		i := q.deliverable()
		if i < 0 {
			q.isDelivering = false
			return
		}
		d, onEvent := q.queue[i], q.onEvent
		q.queue = slices.Delete(q.queue, i, i+1)
		q.mu.Unlock()
		if d.outcome != nil {
			d.outcome()
		} else {
			onEvent(q.conn, d.event)
		}
		q.mu.Lock()
	}
}

// Next waits for the next event. Errors: the context's; closed, if there are no more.
func (q *Queue) Next(ctx context.Context, closed error) (cm.Event, error) {
	for {
		if err := ctx.Err(); err != nil {
			return cm.Event{}, err
		}
		q.mu.Lock()
		i := slices.IndexFunc(q.queue, func(d delivery) bool { return d.outcome == nil })
		if i >= 0 && q.onEvent == nil {
			e := q.queue[i].event
			q.queue = slices.Delete(q.queue, i, i+1)
			q.mu.Unlock()
			return e, nil
		}
		over, ready := q.over, q.ready
		q.mu.Unlock()
		if over {
			return cm.Event{}, closed
		}
		select {
		case <-ready:
		case <-ctx.Done():
		}
	}
}

// Finish drops the events that wait and ends Next.
func (q *Queue) Finish() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.over, q.onEvent = true, nil
	q.queue = slices.DeleteFunc(q.queue, func(d delivery) bool { return d.outcome == nil })
	q.wake()
}
