package rdmacm

import (
	"context"
	"net"
	"slices"
	"sync"
)

// queue keeps events until somebody takes them.
type queue struct {
	mu     sync.Mutex
	list   []Event
	closed bool
	more   chan struct{} // one token: there may be something, or the end
}

func (q *queue) init() { q.more = make(chan struct{}, 1) }

// push queues an event. Of those that a peer can cause as often as it likes, the last one takes the place of one that nobody has taken.
func (q *queue) push(e Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	if e.Type == EventDelayed || e.Type == EventAlternate {
		if i := slices.IndexFunc(q.list, func(o Event) bool { return o.Type == e.Type }); i >= 0 {
			q.list[i] = e
			return
		}
	}
	q.list = append(q.list, e)
	q.wake()
}

func (q *queue) wake() {
	select {
	case q.more <- struct{}{}:
	default:
	}
}

// close lets those who wait take what is left, and then end.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.wake()
}

func (q *queue) next(ctx context.Context) (Event, error) {
	for {
		q.mu.Lock()
		if len(q.list) > 0 {
			e := q.list[0]
			q.list = q.list[1:]
			if len(q.list) > 0 || q.closed {
				q.wake() // the next who waits
			}
			q.mu.Unlock()
			return e, nil
		}
		if q.closed {
			q.wake()
			q.mu.Unlock()
			return Event{}, net.ErrClosed
		}
		q.mu.Unlock()
		select {
		case <-q.more:
		case <-ctx.Done():
			return Event{}, ctx.Err()
		}
	}
}
