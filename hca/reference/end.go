package reference

import (
	"context"
	"errors"
	"sync"
)

// errEndClosed is what an end says after Close.
var errEndClosed = errors.New("end of the link: closed")

// endRoom is how many packets wait at an end; what comes when it is full is lost, as in any receive buffer.
const endRoom = 1 << 14

// endQueue holds the packets that came to an end until Recv takes them.
type endQueue struct {
	more chan struct{} // one token while there is something to look at

	mu     sync.Mutex
	list   [][]byte
	closed bool
}

func newEndQueue() endQueue { return endQueue{more: make(chan struct{}, 1)} }

// put adds a packet, which is the queue's from then on. It does not block.
func (q *endQueue) put(b []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed && len(q.list) < endRoom {
		q.list = append(q.list, b)
		q.wake()
	}
}

// wake leaves a token. The caller holds q.mu.
func (q *endQueue) wake() {
	select {
	case q.more <- struct{}{}:
	default:
	}
}

// Recv gives the next packet that came, in order of arrival; the slice is the caller's. Errors: that of the context when it ends before a
// packet comes, and that the end is closed.
func (q *endQueue) Recv(ctx context.Context) ([]byte, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		q.mu.Lock()
		switch {
		case q.closed:
			q.wake() // for whoever else waits
			q.mu.Unlock()
			return nil, errEndClosed
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

// shut ends Recv; false if it has been before.
func (q *endQueue) shut() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.closed, q.list = true, nil
	q.wake()
	return true
}
