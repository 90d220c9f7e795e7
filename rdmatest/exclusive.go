package rdmatest

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// One network exists at a time. Package rdmacm keeps channels in a sync.Pool, and a channel that was made in one bubble
// cannot be used outside of it. So the pools are emptied when a network begins and ends, and a second network waits for
// the end of the first.
var exclusive struct {
	sync.Mutex
	test atomic.Pointer[testing.TB] // of the present network
}

// enter waits until no other network exists. It calls t.Fatalf if t has a network already.
func enter(t testing.TB) {
	t.Helper()
	if p := exclusive.test.Load(); p != nil && *p == t {
		t.Fatalf("rdmatest.New: this test has a network already: give all names to one call of New")
	}
	exclusive.Lock()
	exclusive.test.Store(&t)
	emptyPools()
}

// leave is the end of the network.
func leave() {
	emptyPools()
	exclusive.test.Store(nil)
	exclusive.Unlock()
}

// emptyPools empties every sync.Pool. A pool keeps its contents for one garbage collection.
func emptyPools() {
	runtime.GC()
	runtime.GC()
}
