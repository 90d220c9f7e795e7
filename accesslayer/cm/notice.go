package cm

import (
	"context"
	"slices"
)

// A notice is an event of a connection, or the outcome of a step, that has not been delivered yet. Events go to OnEvent or to Next. Outcomes are calls.
type notice struct {
	event   Event
	outcome func() // nil: the notice is an event
}

// emit queues an event; c.mu is held. A repeated EventDelayed or EventAlternate replaces the one before it, so that no peer fills the queue.
func (c *conn) emit(e Event) {
	if c.quiet {
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
	return n.outcome == nil && n.event.Type == e.Type && (e.Type == EventDelayed || e.Type == EventAlternate)
}

// notify queues the outcome of a step; c.mu is held. It is delivered even if the consumer has closed the connection.
func (c *conn) notify(n notice) {
	c.notices = append(c.notices, n)
	c.wake()
}

// wake starts the delivery of what is queued; c.mu is held.
func (c *conn) wake() {
	if c.onEvent == nil {
		c.ready.ring()
	}
	if !c.delivering && c.deliverable() >= 0 {
		c.delivering = true
		go c.deliver()
	}
}

// deliverable returns the index of the first notice that deliver takes, -1 if there is none; c.mu is held.
func (c *conn) deliverable() int {
	return slices.IndexFunc(c.notices, func(n notice) bool { return n.outcome != nil || c.onEvent != nil })
}

// deliver calls OnEvent and the functions of steps, one at a time and in order, as long as there is something to deliver.
func (c *conn) deliver() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		i := c.deliverable()
		if i < 0 {
			c.delivering = false
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

// removeNotice removes a notice from the queue; c.mu is held.
func (c *conn) removeNotice(i int) {
	if c.notices = slices.Delete(c.notices, i, i+1); len(c.notices) == 0 {
		c.notices = nil
	}
}

// dropEvents removes the events from the queue, and keeps the outcomes of steps; c.mu is held.
func (c *conn) dropEvents() {
	c.notices = slices.DeleteFunc(c.notices, func(n notice) bool { return n.outcome == nil })
	c.onEvent = nil
	c.ready.ring()
}

// nextEvent removes the first event from the queue; c.mu is held.
func (c *conn) nextEvent() (e Event, ok bool) {
	i := slices.IndexFunc(c.notices, func(n notice) bool { return n.outcome == nil })
	if i < 0 || c.onEvent != nil {
		return Event{}, false
	}
	e = c.notices[i].event
	c.removeNotice(i)
	return e, true
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
		if c.quiet || c.state == StateClosed {
			c.mu.Unlock()
			return Event{}, closed("Conn.Next", "the connection is over")
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
