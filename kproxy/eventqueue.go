package kproxy

import (
	linked "container/list"
	"os"
	"sync"
	"syscall"

	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
)

// eventQueue delivers events to a client through a socket. An event is written at once if the socket has room;
// otherwise it waits for a goroutine that exists only while events wait. If max events wait, or most in all queues of
// the client, a further event replaces an equal one that waits. So none is lost, and the events that wait are at most
// one of each kind of each object more.
type eventQueue struct {
	max    int
	most   int64
	stats  *stats
	encode EventEncoder
	file   *os.File // the daemon's end
	raw    syscall.RawConn
	wait   sync.WaitGroup // of the goroutine
	theirs *os.File       // with a front end's encoder: the client's end, from which events are taken back

	mu      sync.Mutex
	closed  bool
	writing bool
	backlog linked.List // of queuedEvent
	// the last of equal events; nil: no limit was reached since the queue was empty
	last map[eventKey]*linked.Element
}

// queuedEvent is an event that waits. count is increased when it has been delivered.
type queuedEvent struct {
	e     schema.Event
	o     *object
	count *uint64
}

// eventKey is what equal events have in common.
type eventKey struct {
	o    *object
	kind schema.EventKind
	typ  uint32
	port uint32
}

func keyOf(w *linked.Element) eventKey {
	e := w.Value.(queuedEvent)
	return eventKey{e.o, e.e.Kind, e.e.Type, e.e.Port}
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

// fullQueues is the number of queues of a client that can be full of events at the same time. A program may have one
// for each of its connections, of which few events wait.
const fullQueues = 64

// admit counts an event that waits, unless there are that many.
func (s *stats) admit(most int64) bool {
	if s.waiting.Add(1) > most {
		s.waiting.Add(-1)
		return false
	}
	return true
}

func (q *eventQueue) push(e queuedEvent) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
	case q.backlog.Len() == 0 && q.deliver(&e):
	case q.last == nil && q.backlog.Len() < q.max && q.stats.admit(q.most):
		q.backlog.PushBack(e)
		q.start()
	default:
		q.merge(e)
	}
}

// merge adds an event to a queue that has reached a limit. The order of the last ones of equal events remains, so that
// the last event of a port, for instance, is that of its state. mu is held.
func (q *eventQueue) merge(e queuedEvent) {
	if q.last == nil {
		q.last = map[eventKey]*linked.Element{}
		for w := q.backlog.Front(); w != nil; w = w.Next() {
			q.last[keyOf(w)] = w
		}
	}
	w := q.backlog.PushBack(e)
	k := keyOf(w)
	if equal := q.last[k]; equal != nil {
		q.backlog.Remove(equal)
		q.stats.merged.Add(1)
	} else {
		q.stats.waiting.Add(1)
	}
	q.last[k] = w
	q.start()
}

// drop removes an event that waits. mu is held.
func (q *eventQueue) drop(w *linked.Element) {
	if k := keyOf(w); q.last[k] == w {
		delete(q.last, k)
	}
	q.backlog.Remove(w)
	q.stats.waiting.Add(-1)
	if q.backlog.Len() == 0 {
		q.last = nil
	}
}

// deliver writes an event and counts it. It reports false if the socket has no room. An event that the encoder leaves
// out is discarded. mu is held.
func (q *eventQueue) deliver(e *queuedEvent) bool {
	var buf [schema.EventSize]byte
	b := q.encode(buf[:0], &e.e)
	if len(b) == 0 {
		return true
	}
	var sent bool
	if err := q.raw.Control(func(fd uintptr) { sent = sendEvent(fd, b) }); err != nil || !sent {
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
		for w := q.backlog.Front(); w != nil; w = q.backlog.Front() {
			e := w.Value.(queuedEvent)
			if !q.deliver(&e) {
				return false
			}
			q.drop(w)
		}
		q.writing = false
		return true
	})
}

// forget discards the events of an object that were not delivered, and returns how many were. A nil queue has none. In
// a queue with a front end's encoder, events that the client has not read count as not delivered.
func (q *eventQueue) forget(o *object, count *uint64) uint64 {
	if q == nil {
		return 0
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for w := q.backlog.Front(); w != nil; {
		this := w
		w = w.Next()
		if e := this.Value.(queuedEvent); e.o == o && e.count == count {
			q.drop(this)
		}
	}
	if q.theirs != nil {
		*count -= min(*count, q.takeBack(o.token)) // a token may be that of several objects
	}
	return *count
}

// close ends the queue. Further events are discarded.
func (q *eventQueue) close() {
	q.mu.Lock()
	closed := q.closed
	q.stats.waiting.Add(int64(-q.backlog.Len()))
	q.closed, q.last = true, nil
	q.backlog.Init()
	q.mu.Unlock()
	if !closed {
		q.file.Close()
		if q.theirs != nil {
			q.theirs.Close()
		}
	}
	q.wait.Wait()
}

// waiting returns the number of events that wait.
func (q *eventQueue) waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.backlog.Len()
}

// An EventEncoder appends the form of an event in which a client reads it: at most schema.EventSize bytes, which begin
// with the token of the object for events of objects. An event for which it appends nothing is not delivered.
type EventEncoder func(b []byte, e *schema.Event) []byte

// schemaEvent is the EventEncoder of package schema's layout.
func schemaEvent(b []byte, e *schema.Event) []byte { return e.Append(b) }

func (c *Session) createEventQueue(*schema.CreateEventQueue) (*Result, error) {
	h, theirs, err := c.newEventQueue(&eventQueue{encode: schemaEvent}, 1)
	if err != nil {
		return nil, err
	}
	return &Result{Body: &schema.Created{Handle: h}, Files: []*os.File{theirs}, CloseFiles: true, made: h}, nil
}

// NewEventQueue creates an event queue whose events a client reads in the form of a front end, from the descriptor that
// it returns. Reading blocks. The caller closes the descriptor when the client has it. DestroyReply of an object with
// events in the queue counts those that the client has read; the others are removed from the queue.
func (c *Session) NewEventQueue(encode EventEncoder) (schema.Handle, *os.File, error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return 0, nil, failf("HCA.OpenCA", ci.InvalidState, "the client is being closed")
	}
	c.calls.Add(1)
	c.mu.Unlock()
	defer c.calls.Done()
	q := &eventQueue{encode: encode}
	h, theirs, err := c.newEventQueue(q, 2) // with a duplicate of the client's end
	if err != nil {
		return 0, nil, err
	}
	if err := q.keep(theirs); err != nil {
		theirs.Close()
		return 0, nil, &ci.Error{Verb: "HCA.OpenCA", Status: ci.InsufficientResources, Detail: "event queue", Err: err}
	}
	return h, theirs, nil
}

// HoldEventQueue is called with a client's end of a queue of NewEventQueue, before an object uses the queue, if
// ReapEventQueue may have been called for it. Status: InvalidHandle; InsufficientResources.
func (c *Session) HoldEventQueue(h schema.Handle, theirs *os.File) error {
	const verb = "PD.CreateCQ"
	o, err := c.lookup(verb, schema.KindEventQueue, h)
	if err != nil {
		return err
	}
	if err := o.queue.hold(theirs); err != nil {
		return &ci.Error{Verb: verb, Status: ci.InsufficientResources, Detail: "event queue", Err: err}
	}
	return nil
}

// ReapEventQueue destroys a queue of NewEventQueue if no object uses it and the client has closed its end. It reports
// whether it did. The caller excludes HoldEventQueue, and the creation of objects that use the queue, until it returns.
func (c *Session) ReapEventQueue(h schema.Handle) bool {
	o, err := c.lookup("HCA.OpenCA", schema.KindEventQueue, h)
	if err != nil {
		return false
	}
	c.mu.Lock()
	isUsed := o.users > 0
	c.mu.Unlock()
	if isUsed || !o.queue.isAbandoned() {
		return false
	}
	_, err = c.Do(&Call{Command: schema.CmdDestroy, Body: &schema.Object{Handle: h}})
	return err == nil
}

// newEventQueue creates a queue with a number of descriptors in the daemon.
func (c *Session) newEventQueue(q *eventQueue, files int) (schema.Handle, *os.File, error) {
	const verb = "HCA.OpenCA"
	o := &object{kind: schema.KindEventQueue, charge: charge{files: files}}
	if err := c.reserve(verb, o, nil); err != nil {
		return 0, nil, err
	}
	q.max, q.most, q.stats = c.quota.Events, fullQueues*int64(c.quota.Events), &c.stats
	theirs, err := q.open()
	if err != nil {
		c.remove(o)
		return 0, nil, &ci.Error{Verb: verb, Status: ci.InsufficientResources, Detail: "event queue", Err: err}
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
		return 0, nil, failf(verb, ci.InvalidState, "the client is being closed")
	}
	return o.handle, theirs, nil
}
