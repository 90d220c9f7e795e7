package rvt

import (
	"sync"
	"sync/atomic"
)

// table maps numbers to objects. Readers take no lock; writers are serialised. A reader sees an entry or does not.
// Numbers are random, so that peers cannot guess them. The low bits therefore serve as the hash.
type table[T any] struct {
	mu      sync.Mutex
	n       int
	buckets atomic.Pointer[[]atomic.Pointer[tableNode[T]]]
}

type tableNode[T any] struct {
	num  uint32
	val  *T
	next *tableNode[T] // immutable: a removal copies the chain before it
}

func (t *table[T]) get(num uint32) *T {
	b := t.buckets.Load()
	if b == nil {
		return nil
	}
	for e := (*b)[num&uint32(len(*b)-1)].Load(); e != nil; e = e.next {
		if e.num == num {
			return e.val
		}
	}
	return nil
}

// put adds val under num. It reports false if the number is in use.
func (t *table[T]) put(num uint32, val *T) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.get(num) != nil {
		return false
	}
	t.grow()
	b := *t.buckets.Load()
	slot := &b[num&uint32(len(b)-1)]
	slot.Store(&tableNode[T]{num, val, slot.Load()})
	t.n++
	return true
}

func (t *table[T]) grow() {
	old := t.buckets.Load()
	size := 16
	if old != nil {
		if t.n < 2*len(*old) {
			return
		}
		size = 4 * len(*old)
	}
	b := make([]atomic.Pointer[tableNode[T]], size)
	if old != nil {
		for i := range *old {
			for e := (*old)[i].Load(); e != nil; e = e.next {
				slot := &b[e.num&uint32(size-1)]
				slot.Store(&tableNode[T]{e.num, e.val, slot.Load()})
			}
		}
	}
	t.buckets.Store(&b)
}

// del removes val from num. It reports false if it was not there.
func (t *table[T]) del(num uint32, val *T) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.buckets.Load()
	if p == nil {
		return false
	}
	slot := &(*p)[num&uint32(len(*p)-1)]
	found := false
	var keep *tableNode[T]
	for e := slot.Load(); e != nil; e = e.next {
		if e.num == num && e.val == val {
			found = true
			continue
		}
		keep = &tableNode[T]{e.num, e.val, keep}
	}
	if found {
		slot.Store(keep)
		t.n--
	}
	return found
}

// all calls f for each value present, in no order.
func (t *table[T]) all(f func(*T)) {
	p := t.buckets.Load()
	if p == nil {
		return
	}
	for i := range *p {
		for e := (*p)[i].Load(); e != nil; e = e.next {
			f(e.val)
		}
	}
}
