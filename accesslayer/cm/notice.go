package cm

import (
	"context"
	"slices"
)

// A notice is an event of a connection, or the outcome of a step, that has not been delivered. Events are delivered to
// OnEvent or Next. Outcomes are delivered by calling them.
type notice struct {
	event   Event
	outcome func() // nil if the notice is an event
}

// emit queues an event. An EventDelayed or EventAlternate replaces one of the same type directly before it, so that no
// peer can make the queue grow. The caller holds c.mu.
func (c *conn) emit(e Event) {
	if c.consumerClosed {
		return
	}
	if n := len(c.notices); n > 0 && c.notices[n-1].isReplacedBy(&e) {
		c.notices[n-1].event = e
	} else {
		c.notices = append(c.notices, notice{event: e})
	}
	c.wake()
}

func (n *notice) isReplacedBy(e *Event) bool {
	isRepeatable := e.Type == EventDelayed || e.Type == EventAlternate
	return n.outcome == nil && n.event.Type == e.Type && isRepeatable
}

// notify queues the outcome of a step. It is delivered even after Conn.Close. The caller holds c.mu.
func (c *conn) notify(n notice) {
	c.notices = append(c.notices, n)
	c.wake()
}

// wake starts the delivery of the queued notices. The caller holds c.mu.
func (c *conn) wake() {
	if c.onEvent == nil {
		c.ready.ring()
	}
	if !c.isDelivering && c.deliverable() >= 0 {
		c.isDelivering = true
		go c.deliver()
	}
}

// deliverable returns the index of the first notice that deliver delivers, or -1 if there is none. Events wait for Next
// if OnEvent is nil. The caller holds c.mu.
func (c *conn) deliverable() int {
	return slices.IndexFunc(c.notices, func(n notice) bool { return n.outcome != nil || c.onEvent != nil })
}

// deliver calls OnEvent and the outcomes of steps, one at a time and in order. It returns when nothing is left to
// deliver.
func (c *conn) deliver() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		i := c.deliverable()
		if i < 0 {
			c.isDelivering = false
			return
		}
		n, onEvent := c.notices[i], c.onEvent
		c.removeNotice(i)
		c.mu.Unlock()
		if n.outcome != nil {
			n.outcome()
		} else {
			onEvent(c, n.event)
		}
		c.mu.Lock()
	}
}

// removeNotice removes a notice from the queue. The caller holds c.mu.
func (c *conn) removeNotice(i int) {
	if c.notices = slices.Delete(c.notices, i, i+1); len(c.notices) == 0 {
		c.notices = nil
	}
}

// dropEvents removes the events from the queue and keeps the outcomes of steps. The caller holds c.mu.
func (c *conn) dropEvents() {
	c.notices = slices.DeleteFunc(c.notices, func(n notice) bool { return n.outcome == nil })
	c.onEvent = nil
	c.ready.ring()
}

// nextEvent removes the first event from the queue and returns it. The caller holds c.mu.
func (c *conn) nextEvent() (e Event, ok bool) {
	i := slices.IndexFunc(c.notices, func(n notice) bool { return n.outcome == nil })
	if i < 0 || c.onEvent != nil {
		return Event{}, false
	}
	e = c.notices[i].event
	c.removeNotice(i)
	return e, true
}

// Notify implements Notifier.
func (c *conn) Notify(f func(Conn, Event)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.onEvent == nil && f != nil && !c.consumerClosed {
		c.onEvent = f
		c.wake()
	}
}

// Next implements Conn.
func (c *conn) Next(ctx context.Context) (Event, error) {
	if err := ctx.Err(); err != nil {
		return Event{}, err
	}
	for {
		c.mu.Lock()
		if e, ok := c.nextEvent(); ok {
			c.mu.Unlock()
			return e, nil
		}
		if c.consumerClosed || c.state == StateClosed {
			c.mu.Unlock()
			return Event{}, closed("Conn.Next", "the connection has ended")
		}
		ready := c.ready.wait()
		c.mu.Unlock()
		select {
		case <-ready:
		case <-ctx.Done():
			return Event{}, ctx.Err()
		}
	}
}
