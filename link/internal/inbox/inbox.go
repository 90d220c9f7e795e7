// Package inbox queues received packets until a caller takes them. The ends of links at which no HCA sits use it.
package inbox

import (
	"context"
	"errors"
	"sync"
)

// ErrClosed is the error of Recv after Close.
var ErrClosed = errors.New("end of the link: closed")

// Room is the most packets that wait. Packets beyond it are dropped, as in any receive buffer.
const Room = 1 << 14

// A Queue holds packets until Recv takes them. New makes one.
type Queue struct {
	more chan struct{} // one token while there is something to look at

	mu     sync.Mutex
	list   [][]byte
	closed bool
}

// New returns an empty queue.
func New() *Queue { return &Queue{more: make(chan struct{}, 1)} }

// Put adds a packet, which is the queue's from then on. It does not block.
func (q *Queue) Put(b []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed && len(q.list) < Room {
		q.list = append(q.list, b)
		q.wake()
	}
}

// wake leaves a token. The caller holds q.mu.
func (q *Queue) wake() {
	select {
	case q.more <- struct{}{}:
	default:
	}
}

// Recv returns the next packet in order of arrival. The slice is the caller's. Errors: that of the context when it ends
// before a packet comes; ErrClosed.
func (q *Queue) Recv(ctx context.Context) ([]byte, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		q.mu.Lock()
		switch {
		case q.closed:
			q.wake() // for other callers that wait
			q.mu.Unlock()
			return nil, ErrClosed
		case len(q.list) > 0:
			b := q.list[0]
			q.list[0] = nil
			if q.list = q.list[1:]; len(q.list) > 0 {
				q.wake()
			}
			q.mu.Unlock()
			return b, nil
		}
		q.mu.Unlock()
		select {
		case <-q.more:
		case <-ctx.Done():
		}
	}
}

// Close ends Recv, and returns false if the queue has been closed before.
func (q *Queue) Close() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.closed, q.list = true, nil
	q.wake()
	return true
}
