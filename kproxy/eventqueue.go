package kproxy

import (
	"os"
	"sync"
	"syscall"

	"ciddk/ci"
	"ciddk/kproxy/schema"
)

// eventQueue delivers events to a client through a socket. An event is written at once if the socket has room;
// otherwise it waits for a goroutine that exists only while events wait.
type eventQueue struct {
	max   int
	stats *stats
	file  *os.File // the daemon's end
	raw   syscall.RawConn
	wait  sync.WaitGroup // of the goroutine

	mu      sync.Mutex
	closed  bool
	writing bool
	backlog []queuedEvent
	lost    uint64
}

// queuedEvent is an event that waits. count is increased when it has been delivered.
type queuedEvent struct {
	e     schema.Event
	o     *object
	count *uint64
}

// completion delivers the completion event of a CQ. It does not block.
func (q *eventQueue) completion(o *object) {
	q.push(queuedEvent{schema.Event{Token: o.token, Kind: schema.EventCompletion}, o, &o.completed})
}

// event delivers an asynchronous event of an object. It does not block.
func (q *eventQueue) event(o *object, e ci.Event) {
	q.push(queuedEvent{schema.Event{Token: o.token, Kind: schema.EventAsync, Type: uint32(e.Type), Vendor: e.Vendor,
		Port: uint32(e.Port)}, o, &o.delivered})
}

// notice delivers the event that an item has notices. It does not block.
func (q *eventQueue) notice(o *object) {
	q.push(queuedEvent{schema.Event{Token: o.token, Kind: schema.EventNotice}, o, &o.delivered})
}

func (q *eventQueue) push(e queuedEvent) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
	case len(q.backlog) == 0 && q.lost == 0 && q.deliver(&e):
	case len(q.backlog) < q.max && q.lost == 0:
		q.backlog = append(q.backlog, e)
		q.start()
	default: // everything after a lost event is lost, too, until the client has been told
		q.lost++
		q.stats.lost.Add(1)
		q.start()
	}
}

// deliver writes an event and counts it. It reports false if the socket has no room. mu is held.
func (q *eventQueue) deliver(e *queuedEvent) bool {
	var sent bool
	if err := q.raw.Control(func(fd uintptr) { sent = sendEvent(fd, &e.e) }); err != nil || !sent {
		return false
	}
	if e.count != nil {
		*e.count++
	}
	q.stats.events.Add(1)
	return true
}

// start starts the goroutine if it does not run. mu is held.
func (q *eventQueue) start() {
	if !q.writing {
		q.writing = true
		q.wait.Go(q.drain)
	}
}

// drain writes the events that wait whenever the socket has room, and ends when none is left.
func (q *eventQueue) drain() {
	_ = q.raw.Write(func(uintptr) bool { // the error means that the queue has been closed
		q.mu.Lock()
		defer q.mu.Unlock()
		for len(q.backlog) > 0 {
			if !q.deliver(&q.backlog[0]) {
				return false
			}
			q.backlog = q.backlog[1:]
		}
		if q.lost > 0 {
			e := queuedEvent{e: schema.Event{Kind: schema.EventOverflow, Vendor: q.lost}}
			if !q.deliver(&e) {
				return false
			}
			q.lost = 0
			q.stats.overflows.Add(1)
		}
		q.backlog, q.writing = nil, false
		return true
	})
}

// forget discards the events of an object that were not delivered, and returns how many were. A nil queue has none.
func (q *eventQueue) forget(o *object, count *uint64) uint64 {
	if q == nil {
		return 0
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	var kept []queuedEvent
	for _, e := range q.backlog {
		if e.o != o || e.count != count {
			kept = append(kept, e)
		}
	}
	q.backlog = kept
	return *count
}

// close ends the queue. Further events are discarded.
func (q *eventQueue) close() {
	q.mu.Lock()
	closed := q.closed
	q.closed, q.backlog = true, nil
	q.mu.Unlock()
	if !closed {
		q.file.Close()
	}
	q.wait.Wait()
}

// waiting returns the number of events that wait.
func (q *eventQueue) waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.backlog)
}

func (c *Session) createEventQueue(*schema.CreateEventQueue) (*Result, error) {
	const verb = "HCA.OpenCA"
	o := &object{kind: schema.KindEventQueue}
	if err := c.reserve(verb, o, nil); err != nil {
		return nil, err
	}
	q := &eventQueue{max: c.quota.Events, stats: &c.stats}
	theirs, err := q.open()
	if err != nil {
		c.remove(o)
		return nil, &ci.Error{Verb: verb, Status: ci.InsufficientResources, Detail: "event queue", Err: err}
	}
	c.mu.Lock()
	closed := c.closed
	if !closed {
		o.queue, o.state = q, live
	}
	c.mu.Unlock()
	if closed {
		q.close()
		theirs.Close()
		return nil, failf(verb, ci.InvalidState, "the client is being closed")
	}
	return &Result{Body: &schema.Created{Handle: o.handle}, Files: []*os.File{theirs}, CloseFiles: true}, nil
}
