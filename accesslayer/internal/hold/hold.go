// Package hold provides a mutex and a once that may be held while a callback of the program runs, or while a goroutine
// waits for a peer.
//
// In a testing/synctest bubble, time advances only when every goroutine is durably blocked. Waiting for a sync.Mutex or
// a sync.Once is not durable. If a callback sleeps while one goroutine holds a sync.Mutex and another waits for it, the
// test hangs without a report of a deadlock. The types of this package wait on channels, which is durable. They cost
// more than those of package sync: use them only where the holder can block.
//
// In a test with a bubble, create the types inside the bubble.
package hold

import "sync/atomic"

// Mutex is a mutual exclusion lock.
type Mutex chan struct{}

// NewMutex returns an unlocked Mutex.
func NewMutex() Mutex { return make(Mutex, 1) }

// Lock locks m. It waits until m is unlocked.
func (m Mutex) Lock() { m <- struct{}{} }

// Unlock unlocks m. It panics if m is not locked.
func (m Mutex) Unlock() {
	select {
	case <-m:
	default:
		panic("hold: unlock of an unlocked Mutex")
	}
}

// Once runs one function once.
type Once struct {
	begun atomic.Bool
	done  chan struct{}
}

// NewOnce returns a Once that has not run.
func NewOnce() *Once { return &Once{done: make(chan struct{})} }

// Do calls f if no Do was called before. Every call returns after f has returned.
func (o *Once) Do(f func()) {
	if o.begun.Swap(true) {
		<-o.done
		return
	}
	defer close(o.done)
	f()
}
