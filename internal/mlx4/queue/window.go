package queue

import (
	"sync"
	"sync/atomic"

	"ciddk/ci"
)

// A Window has the keys of a memory window. The adapter takes any of the 256 keys of a window in a bind, and reports
// the key in effect nowhere. Therefore the keys of the binds that have been posted are kept until they complete. All
// methods may be called concurrently, after Init.
type Window struct {
	typ ci.MWType
	key atomic.Uint32 // current; it changes with mu

	mu      sync.Mutex
	applied ci.Key // of the last bind that has completed
	drawn   ci.Key // type 1: for the last bind that was posted
}

// Init sets the type, and the key of a new window.
func (w *Window) Init(typ ci.MWType, k ci.Key) {
	w.typ, w.applied, w.drawn = typ, k, k
	w.key.Store(uint32(k))
}

// Key returns the current key: that of the last bind that was posted (type 1) or that has completed (type 2).
func (w *Window) Key() ci.Key { return ci.Key(w.key.Load()) }

// Variant returns the key of the window that has the low bits of k.
func (w *Window) Variant(k ci.Key) ci.Key { return w.Key()&^0xff | k&0xff }

// NextKey draws the key that a window of type 1 will have once the bind that is about to be posted is executed, and
// makes it current. It reports false for another type, and if current is not the current key.
func (w *Window) NextKey(current ci.Key) (ci.Key, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.typ != ci.MWType1 || w.Key() != current {
		return 0, false
	}
	k := nextVariant(w.drawn)
	if k == w.applied {
		k = nextVariant(k)
	}
	w.drawn = k
	w.key.Store(uint32(k))
	return k, true
}

// nextVariant returns the key with the next value in its low byte.
func nextVariant(k ci.Key) ci.Key { return k&^0xff | (k+1)&0xff }

// settle records the end of a bind. If it has failed or was discarded, the key in effect becomes current again, unless
// a later bind has been posted.
func (w *Window) settle(k ci.Key, isBound bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case isBound:
		w.applied = k
		if w.typ == ci.MWType2 {
			w.key.Store(uint32(k))
		}
	case w.Key() == k:
		w.key.Store(uint32(w.applied))
	}
}

// A Bind is a window of a request, with the key that the request gives it.
type Bind struct {
	Window *Window
	Key    ci.Key
}

// Binds has the outstanding binds of a send queue, by slot. It allocates with the first one. The binds of outstanding
// requests belong to the goroutine that polls, other slots to the one that posts.
type Binds struct{ slots atomic.Pointer[[]Bind] }

// Keep keeps the bind that is written to the next slot of r.
func (b *Binds) Keep(r *SendRing, x Bind) {
	list := b.slots.Load()
	if list == nil {
		slots := make([]Bind, r.Slots())
		list = &slots
		b.slots.Store(list)
	}
	(*list)[r.Slot()] = x
}

// Settle records the end of the binds up to the request of a completion. The slots must not be free yet.
func (b *Binds) Settle(r *SendRing, index uint16, isOK bool) {
	list := b.slots.Load()
	if list == nil {
		return
	}
	first, n := r.Until(index)
	for i := range n {
		if x := &(*list)[int(first+i)&(len(*list)-1)]; x.Window != nil {
			x.Window.settle(x.Key, isOK || i < n-1)
			*x = Bind{}
		}
	}
}

// Discard records that the outstanding binds are not executed any more.
func (b *Binds) Discard() {
	list := b.slots.Load()
	if list == nil {
		return
	}
	for i := range *list {
		if x := &(*list)[i]; x.Window != nil {
			x.Window.settle(x.Key, false)
			*x = Bind{}
		}
	}
}
