package rvt

import (
	"sync"
	"sync/atomic"
)

// An ackQueue holds the QPs of a port whose acknowledgement waits for FlushAcks or for the consumer's next post.
type ackQueue struct {
	count atomic.Int32 // length of list, for a look without the lock

	mu    sync.Mutex
	list  []ackHolder
	spare []ackHolder // empty; its storage is for the next list
}

// ackHolder is a QP as an ackQueue uses it.
type ackHolder interface {
	// flushAck sends the acknowledgement that waits, unless it has left behind a post of the consumer. All holders of a
	// flush share a quantum: left is what the holders before have left of it, and flushAck returns what it leaves
	// itself.
	flushAck(left quantum) quantum
}

// add appends a holder, which is not in the queue.
func (a *ackQueue) add(h ackHolder) {
	a.mu.Lock()
	a.list = append(a.list, h)
	a.count.Store(int32(len(a.list)))
	a.mu.Unlock()
}

// flush empties the queue and has each holder send its acknowledgement.
func (a *ackQueue) flush() {
	if a.count.Load() == 0 { // the rule, for a consumer that spins
		return
	}
	a.mu.Lock()
	list := a.list
	a.count.Store(0)
	a.list, a.spare = a.spare[:0], nil
	a.mu.Unlock()
	left := newQuantum()
	for i, h := range list {
		left = h.flushAck(left) // by value: a pointer passed to an interface would be allocated
		list[i] = nil
	}
	a.mu.Lock()
	a.spare = list[:0]
	a.mu.Unlock()
}
