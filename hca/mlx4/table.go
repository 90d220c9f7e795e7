package mlx4

import (
	"iter"
	"sync/atomic"
)

// A table finds objects by number. Lookups take no lock. The caller serialises changes of one number.
type table[T any] struct {
	leaves []atomic.Pointer[leaf[T]]
}

const leafBits = 8

type leaf[T any] [1 << leafBits]atomic.Pointer[T]

func newTable[T any](n uint32) *table[T] {
	return &table[T]{make([]atomic.Pointer[leaf[T]], (n+1<<leafBits-1)>>leafBits)}
}

// get returns an object, or nil.
func (t *table[T]) get(num uint32) *T {
	if int(num>>leafBits) >= len(t.leaves) {
		return nil
	}
	if l := t.leaves[num>>leafBits].Load(); l != nil {
		return l[num&(1<<leafBits-1)].Load()
	}
	return nil
}

// set sets an object; nil removes it. The number is below that of newTable.
func (t *table[T]) set(num uint32, o *T) {
	p := &t.leaves[num>>leafBits]
	l := p.Load()
	if l == nil {
		l = new(leaf[T])
		if !p.CompareAndSwap(nil, l) {
			l = p.Load()
		}
	}
	l[num&(1<<leafBits-1)].Store(o)
}

// all returns the objects in the order of their numbers. Objects that are added meanwhile may be absent.
func (t *table[T]) all() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for i := range t.leaves {
			l := t.leaves[i].Load()
			if l == nil {
				continue
			}
			for k := range l {
				if o := l[k].Load(); o != nil && !yield(o) {
					return
				}
			}
		}
	}
}
