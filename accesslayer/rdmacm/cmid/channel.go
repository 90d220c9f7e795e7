package cmid

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"ciddk/accesslayer/rdmacm/internal/failure"
)

// EventChannel queues the events of the IDs that were created with IDConfig.Events (rdma_event_channel). One channel
// serves any number of IDs, and no goroutine is needed for any of them. All methods may be called concurrently.
//
// An event that was taken is acknowledged with Event.Ack when the program has finished with it. The program closes its
// IDs before the channel.
type EventChannel struct {
	ready func()

	mu     sync.Mutex
	list   []Event
	closed bool

	ignored []EventType

	more chan struct{} // one token: there may be an event, or the channel is closed
}

// NewEventChannel returns a channel without events. ready, if not nil, is called after each event that is queued, with
// no lock held, also on goroutines that call methods of an ID. It must not block; it may call TryNext.
func NewEventChannel(ready func()) *EventChannel {
	return &EventChannel{ready: ready, more: make(chan struct{}, 1)}
}

// Next waits for the next event and returns it. Errors: the context's; net.ErrClosed after Close.
func (c *EventChannel) Next(ctx context.Context) (Event, error) {
	for {
		c.mu.Lock()
		e, ok := c.takeLocked()
		closed := c.closed
		if ok && len(c.list) > 0 || closed {
			c.wake() // for another goroutine that waits
		}
		c.mu.Unlock()
		switch {
		case ok:
			e.taken()
			return e, nil
		case closed:
			return Event{}, net.ErrClosed
		}
		select {
		case <-c.more:
		case <-ctx.Done():
			return Event{}, ctx.Err()
		}
	}
}

// TryNext returns the next event without waiting; ok is false if there is none.
func (c *EventChannel) TryNext() (e Event, ok bool) {
	c.mu.Lock()
	e, ok = c.takeLocked()
	c.mu.Unlock()
	if ok {
		e.taken()
	}
	return e, ok
}

// Len returns the number of events that wait.
func (c *EventChannel) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.list)
}

// Ignore makes the channel discard events of some types from now on. It is not for EventConnectRequest.
func (c *EventChannel) Ignore(types ...EventType) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ignored = append(c.ignored, types...)
}

// Close discards the events that were not taken, and ends calls of Next. Requests among them are rejected. Later events
// are discarded, too. It is idempotent.
func (c *EventChannel) Close() error {
	c.mu.Lock()
	list := c.list
	c.closed, c.list = true, nil
	c.wake()
	c.mu.Unlock()
	return closeRequests(list)
}

// closeRequests closes the IDs of requests that no caller received, which rejects them.
func closeRequests(list []Event) error {
	var errs []error
	for _, e := range list {
		if e.Type == EventConnectRequest {
			errs = append(errs, e.ID.Close())
		}
	}
	return errors.Join(errs...)
}

// takeLocked takes the first event and counts it as unacknowledged, so that ID.Close cannot miss it; mu is held.
func (c *EventChannel) takeLocked() (e Event, ok bool) {
	if len(c.list) == 0 {
		return Event{}, false
	}
	e = c.list[0]
	c.list[0] = Event{}
	c.list = c.list[1:]
	e.ID.waiting.Add(-1)
	if e.ack != nil {
		e.ack.owner.acks.add()
	}
	return e, true
}

// put queues an event. It returns false if the channel is closed.
func (c *EventChannel) put(e Event) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	if slices.Contains(c.ignored, e.Type) {
		return true
	}
	if e.Type.isReplaceable() {
		same := func(o Event) bool { return o.Type == e.Type && o.ID == e.ID }
		if i := slices.IndexFunc(c.list, same); i >= 0 {
			c.list[i] = e
			return true
		}
	}
	c.list = append(c.list, e)
	e.ID.waiting.Add(1)
	c.wake()
	return true
}

// remove takes the events of an ID out of the queue, also requests that it received as a listener.
func (c *EventChannel) remove(i *ID) (removed []Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	keep := c.list[:0]
	for _, e := range c.list {
		if e.ID == i || e.Listener != nil && e.Listener.id == i {
			removed = append(removed, e)
			e.ID.waiting.Add(-1)
		} else {
			keep = append(keep, e)
		}
	}
	clear(c.list[len(keep):])
	c.list = keep
	return removed
}

// finish lets readers take the events that are queued, and then ends them with net.ErrClosed.
func (c *EventChannel) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.wake()
}

// wake puts a token in more; mu is held.
func (c *EventChannel) wake() {
	select {
	case c.more <- struct{}{}:
	default:
	}
}

// taken is called for each event that a program has taken, with no lock held.
func (e *Event) taken() {
	if e.Type == EventConnectRequest {
		e.Listener.fetch()
	}
}

// ack is the acknowledgement of one event.
type ack struct {
	owner *ID // of EventConnectRequest, the listener's ID
	done  atomic.Bool
}

func (a *ack) acknowledge() {
	if !a.done.Swap(true) {
		a.owner.acks.remove()
	}
}

// ackCounter counts events that were taken and not acknowledged.
type ackCounter struct {
	mu    sync.Mutex
	count int
	zero  chan struct{} // closed when count is 0; nil if nobody waits
}

func (a *ackCounter) add() {
	a.mu.Lock()
	a.count++
	a.mu.Unlock()
}

func (a *ackCounter) remove() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.count--; a.count == 0 && a.zero != nil {
		close(a.zero)
		a.zero = nil
	}
}

// wait waits until the count is 0.
func (a *ackCounter) wait() {
	a.mu.Lock()
	if a.count > 0 && a.zero == nil {
		a.zero = make(chan struct{})
	}
	zero := a.zero
	a.mu.Unlock()
	if zero != nil {
		<-zero
	}
}

// push queues an event of the ID.
func (i *ID) push(e Event) {
	e.ID = i
	i.queue(e)
}

// queue queues an event on the channel of the ID.
func (i *ID) queue(e Event) {
	i.eventsMu.Lock()
	c := i.events
	if i.isShared {
		e.ack = &ack{owner: i}
	}
	ok := !i.eventsEnded && c.put(e)
	i.eventsMu.Unlock()
	switch {
	case !ok:
		_ = closeRequests([]Event{e})
	case c.ready != nil:
		c.ready()
	}
}

// Waiting returns the number of events of the ID that wait on its EventChannel. A server that executes calls for others
// refuses those that cause events while many wait.
func (i *ID) Waiting() int { return int(i.waiting.Load()) }

// Post queues an EventUser with a value, after the events that the ID has (rdma_write_cm_event). The program bounds
// their number: see Waiting. Error: net.ErrClosed.
func (i *ID) Post(value any) error {
	if i.isClosed() {
		return i.fail("post", net.ErrClosed)
	}
	i.push(Event{Type: EventUser, User: value})
	return nil
}

// Next waits for the next event of an ID without IDConfig.Events. It counts as acknowledged. Events that the program
// does not take are kept; there are few. Errors: the context's; net.ErrClosed when the ID was closed and all events
// were taken; InvalidState (the ID's events are on its EventChannel).
func (i *ID) Next(ctx context.Context) (Event, error) {
	i.eventsMu.Lock()
	c, shared := i.events, i.isShared
	i.eventsMu.Unlock()
	if shared {
		return Event{}, i.fail("next event", failure.InvalidState("ID.Next",
			"the events of the ID are on its EventChannel"))
	}
	return c.Next(ctx)
}

// Migrate moves the ID to another channel, with its events that were not taken (rdma_migrate_id). Events that were
// taken before are acknowledged as usual. Errors: InvalidParameter (nil), InvalidState (the ID was created without
// IDConfig.Events), net.ErrClosed.
func (i *ID) Migrate(to *EventChannel) error { return i.fail("migrate", i.migrate(to)) }

func (i *ID) migrate(to *EventChannel) error {
	const verb = "ID.Migrate"
	if to == nil {
		return failure.Invalid(verb, "the channel is nil")
	}
	if i.isClosed() {
		return net.ErrClosed
	}
	i.eventsMu.Lock()
	if !i.isShared {
		i.eventsMu.Unlock()
		return failure.InvalidState(verb, "the ID has no EventChannel (IDConfig.Events)")
	}
	moved := 0
	for _, e := range i.events.remove(i) {
		if to.put(e) {
			moved++
		}
	}
	i.events = to
	i.eventsMu.Unlock()
	for range moved {
		if to.ready != nil {
			to.ready()
		}
	}
	return nil
}

// dropEvents discards the events of a closed ID, and waits until those that were taken are acknowledged. Requests that
// a listener received and no caller took are closed, which rejects them.
func (i *ID) dropEvents() error {
	i.eventsMu.Lock()
	i.eventsEnded = true
	if !i.isShared {
		i.events.finish()
		i.eventsMu.Unlock()
		return nil
	}
	removed := i.events.remove(i)
	i.eventsMu.Unlock()
	err := closeRequests(slices.DeleteFunc(removed, func(e Event) bool { return e.ID == i }))
	i.acks.wait()
	return err
}
