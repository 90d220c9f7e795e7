package rvt

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"ciddk/ci"
)

// Keys. The upper 24 bits of a key are an index, random so that a peer cannot guess it (decision 9); the lower 8 are
// the variant, which changes whenever the same object gives access to something else. L_Key and R_Key of a region are
// the same number.

// keyTable finds what a key grants.
type keyTable struct {
	slots  table[slot]
	dma    dmaSpace
	rand   *source       // draws keys
	choose func() uint32 // Ops.Key; nil: keys are drawn
}

// slot is an index of the key table, owned by a region, an FMR or a window for its whole life.
type slot struct {
	index uint32
	owner keyOwner              // nil for an FMR, whose keys cannot be invalidated by work requests
	now   atomic.Pointer[grant] // what the present key gives; nil: nothing

	// Variants never repeat within 256, so that a key that has been withdrawn stays useless for as long as 8 bits
	// allow. The owner's lock guards these two.
	seed  uint64 // 0: variants count up, for a driver that names its keys
	count uint8

	mu  sync.Mutex
	old []*grant // withdrawn, and possibly still in use
}

// keyOwner is a region or a window as its slot uses it.
type keyOwner interface {
	// setSlot stores the slot and its first key. Afterwards, invalidations may reach the owner.
	setSlot(s *slot, first ci.Key)
	// invalidate withdraws what key grants for a work request of e, or for one of its peer's. It reports whether that
	// is allowed.
	invalidate(e *endpoint, key ci.Key) bool
}

// reserve takes a free index for an owner, or for an FMR, which is none, and makes its first key. It reports false if
// there is none.
func (k *keyTable) reserve(owner keyOwner) (*slot, ci.Key, bool) {
	for range 1 << 10 { // of 2^24 indices; only a driver's own Ops.Key can fail as often
		s := &slot{owner: owner}
		if k.choose != nil {
			s.index = k.choose() & (1<<24 - 1)
		} else {
			s.index = k.rand.uint32() >> 8
			s.seed = uint64(k.rand.uint32())<<32 | uint64(k.rand.uint32()) | 1
		}
		if s.index == 0 { // stays unused: no key is 0
			continue
		}
		key := s.fresh()
		if owner != nil {
			owner.setSlot(s, key)
		}
		if k.slots.put(s.index, s) {
			return s, key, true
		}
	}
	return nil, 0, false
}

// release gives the index back, once nothing is reached through it any more.
func (k *keyTable) release(s *slot) {
	k.slots.del(s.index, s)
	s.swap(nil)
}

// fresh is the slot's next key. The caller holds the owner's lock.
func (s *slot) fresh() ci.Key {
	v := s.count
	s.count++
	if s.seed != 0 {
		v = permute(s.seed, v)
	}
	return ci.Key(s.index<<8 | uint32(v))
}

// permute is a permutation of the bytes chosen by seed: a Feistel network of four rounds over two nibbles.
func permute(seed uint64, v uint8) uint8 {
	l, r := v>>4, v&15
	for round := range uint64(4) {
		x := seed + (round<<4|uint64(r)+1)*0x9e3779b97f4a7c15 // splitmix64
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		l, r = r, l^uint8(x>>60)
	}
	return l<<4 | r
}

// owns reports whether key is one of this slot's 256.
func (s *slot) owns(key ci.Key) bool { return uint32(key)>>8 == s.index }

// swap makes g (or nothing) what the slot gives, and withdraws what it gave. It does not wait for accesses in progress.
func (s *slot) swap(g *grant) {
	was := s.now.Swap(g)
	if was == nil {
		return
	}
	was.withdraw()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.old = slices.DeleteFunc(append(s.old, was), func(g *grant) bool { return g.settled(nil) })
}

// settled reports whether all that the slot used to give is out of use. If not, wake (unless nil) is called when one more
// of it is: on the goroutine that was the last to use it, which holds no lock of the memory system but may hold a QP's
// token.
func (s *slot) settled(wake func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, o := range s.old {
		if !o.settled(wake) {
			s.old = s.old[i:]
			return false
		}
	}
	s.old = nil
	return true
}

// wait returns when all that the slot used to give is out of use. Holds last no longer than a run of a QP, in which
// nothing waits, so this needs no deadline. A caller may not hold anything itself: only thread verbs wait.
func (s *slot) wait() {
	for {
		free := make(chan struct{}, 1)
		if s.settled(func() { free <- struct{}{} }) {
			return
		}
		<-free
	}
}

// find gives what key gives access to.
func (k *keyTable) find(key ci.Key) *grant {
	s := k.slots.get(uint32(key) >> 8)
	if s == nil {
		return nil
	}
	if g := s.now.Load(); g != nil && g.key == key {
		return g
	}
	return nil
}

// invalidate withdraws what key gives, if it is that of a fast registration region or of a type 2 window of e's PD. A
// window must have been bound through e. A region that gives nothing just now counts as invalidated; one with a window
// bound to it stays.
func (k *keyTable) invalidate(e *endpoint, key ci.Key) bool {
	s := k.slots.get(uint32(key) >> 8)
	return s != nil && s.owner != nil && s.owner.invalidate(e, key)
}

// settled reports whether the bytes that key once gave access to are untouched from now on: an invalidation, a bind and a
// fast registration withdraw rights at once, but do not wait for an access in progress on another goroutine, which
// would deadlock if that one waited in turn. If the answer is false, wake is called when it is worth asking again; wake
// may not block. An engine that keeps the completion of an OpLocalInv until then gives it the meaning that IBTA does.
func (k *keyTable) settled(key ci.Key, wake func()) bool {
	s := k.slots.get(uint32(key) >> 8)
	return s == nil || s.settled(wake)
}

// grant is one generation of what a key gives access to: immutable once it is in its slot, but for the count of its
// uses.
type grant struct {
	use
	key    ci.Key
	access ci.Access
	pd     *PD
	base   uint64 // address of the first byte
	length uint64 // base+length does not exceed 2^64-1
	bytes  *storage
	off    uint64 // of the first byte in bytes

	// Windows only.
	under *grant    // the region's; it outlives the window
	qp    *endpoint // type 2: the one QP that peers may come through

	va   uint64 // regions: the base, were it not ZeroBased
	dmas []*DMA // what bytes were reached through, each once
}

// rights reports whether all of need is granted.
func (g *grant) rights(need ci.Access) bool { return g.access&need == need }

// span is the place of n bytes at addr, or false if they are not all inside. It is written so that nothing wraps
// around.
func (g *grant) span(addr, n uint64) (uint64, bool) {
	d := addr - g.base
	if addr < g.base || d > g.length || n > g.length-d {
		return 0, false
	}
	return g.off + d, true
}

// withdraw ends a grant that has left its slot, or never came to it.
func (g *grant) withdraw() {
	for _, d := range g.dmas {
		d.put()
	}
	g.end()
}

// use counts the accesses in progress to something that can be withdrawn.
type use struct {
	n atomic.Int64 // below zero once withdrawn

	mu    sync.Mutex
	quiet bool
	then  []func()
}

const withdrawn = math.MinInt64

// enter begins an access; false when it is too late for that.
func (u *use) enter() bool {
	if u.n.Add(1) > 0 {
		return true
	}
	u.leave()
	return false
}

func (u *use) leave() {
	if u.n.Add(-1) == withdrawn {
		u.settle()
	}
}

// end lets no new access begin.
func (u *use) end() {
	if u.n.Or(withdrawn) == 0 {
		u.settle()
	}
}

// settle runs when the last use is over. An access that came too late may cause a second call, which does nothing.
func (u *use) settle() {
	u.mu.Lock()
	then := u.then
	u.quiet, u.then = true, nil
	u.mu.Unlock()
	for _, f := range then {
		f()
	}
}

// settled reports whether use has ended. If not, f (unless nil) is called when it does.
func (u *use) settled(f func()) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.quiet && f != nil {
		u.then = append(u.then, f)
	}
	return u.quiet
}
