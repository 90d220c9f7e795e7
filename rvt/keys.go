package rvt

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"ciddk/ci"
)

// The upper 24 bits of a key are an index, which is random so that a peer cannot guess it. The lower 8 bits are the
// variant, which changes whenever the object grants something else. L_Key and R_Key of a region are the same number.

// keyTable maps keys to what they grant.
type keyTable struct {
	slots  table[slot]
	dma    dmaSpace
	rand   *source       // draws keys
	choose func() uint32 // Ops.Key; nil: keys are drawn
	miss   func(ci.Key) bool
}

// slot is an index of the key table. It belongs to one region, FMR or window as long as that exists.
type slot struct {
	index uint32
	owner keyOwner              // nil for an FMR, whose keys cannot be invalidated by work requests
	now   atomic.Pointer[grant] // what the present key grants; nil: nothing

	// A variant is repeated after 255 others at the earliest, so that a withdrawn key stays invalid as long as 8 bits
	// allow. The lock of the owner guards seed and count.
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

// reserve takes a free index and creates its first key. owner is nil for an FMR. reserve reports false if no index is
// free.
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

// reserveKey takes the index of a key that the driver names. It reports false if the index is in use.
func (k *keyTable) reserveKey(owner keyOwner, key ci.Key) (*slot, bool) {
	s := &slot{index: uint32(key) >> 8, owner: owner, count: uint8(key) + 1}
	if owner != nil {
		owner.setSlot(s, key)
	}
	return s, k.slots.put(s.index, s)
}

// release frees the index. The key grants nothing from then on.
func (k *keyTable) release(s *slot) {
	k.slots.del(s.index, s)
	s.swap(nil)
}

// fresh returns the next key of the slot. The caller holds the lock of the owner.
func (s *slot) fresh() ci.Key {
	v := s.count
	s.count++
	if s.seed != 0 {
		v = permute(s.seed, v)
	}
	return ci.Key(s.index<<8 | uint32(v))
}

// permute returns the image of v under a permutation of the bytes that seed selects: a Feistel network of four rounds
// over two nibbles.
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

// variant returns the key of the slot that has the low bits of key.
func (s *slot) variant(key ci.Key) ci.Key { return ci.Key(s.index)<<8 | key&0xff }

// owns reports whether key is one of the 256 keys of the slot.
func (s *slot) owns(key ci.Key) bool { return uint32(key)>>8 == s.index }

// swap replaces what the slot grants by g, which may be nil, and withdraws the previous grant. It does not wait for
// accesses in progress.
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

// settled reports whether no withdrawn grant of the slot is in use. If one is and wake is not nil, wake is called when
// one more of them is not: on the goroutine of its last user, which may hold the token of a QP but no lock of a memory
// object.
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

// wait returns when no withdrawn grant of the slot is in use. A turn holds regions no longer than it runs and never
// waits, so wait needs no deadline. The caller may not hold a region itself: only thread verbs wait.
func (s *slot) wait() {
	for {
		free := make(chan struct{}, 1)
		if s.settled(func() { free <- struct{}{} }) {
			return
		}
		<-free
	}
}

// find returns what key grants, or nil.
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

// lookup is find, after Ops.KeyMiss if there is nothing.
func (k *keyTable) lookup(key ci.Key) *grant {
	g := k.find(key)
	if g == nil && k.miss != nil && k.miss(key) {
		g = k.find(key)
	}
	return g
}

// invalidate withdraws what key grants, if the key is that of a fast registration region or of a type 2 window of the
// PD of e. A window must have been bound through e. It succeeds for a region that grants nothing at present, and fails
// for one to which a window is bound.
func (k *keyTable) invalidate(e *endpoint, key ci.Key) bool {
	s := k.slots.get(uint32(key) >> 8)
	return s != nil && s.owner != nil && s.owner.invalidate(e, key)
}

// settled reports whether all accesses by withdrawn grants of the slot of key have ended. An invalidation, a bind and a
// fast registration withdraw rights at once but do not wait for an access on another goroutine, since both might wait
// for each other. The requester completes an OpLocalInv only when settled reports true. If it reports false, wake is
// called when it should be called again. wake may not block.
func (k *keyTable) settled(key ci.Key, wake func()) bool {
	s := k.slots.get(uint32(key) >> 8)
	return s == nil || s.settled(wake)
}

// grant is what a key grants. It does not change once it is in its slot, except for the count of its uses.
type grant struct {
	use
	key    ci.Key
	access ci.Access
	pd     *PD    // nil: local accesses of all PDs
	base   uint64 // address of the first byte
	length uint64 // base+length does not exceed 2^64-1
	bytes  *storage
	off    uint64 // of the first byte in bytes

	// Windows only.
	under *grant    // the region's; it outlives the window
	qp    *endpoint // type 2: the one QP that peers may come through

	va   uint64 // regions: the base, were it not ZeroBased
	dmas []*DMA // those that bytes belongs to, each once
}

// hasRights reports whether all rights of need are granted.
func (g *grant) hasRights(need ci.Access) bool { return g.access&need == need }

// span returns the offset of n bytes at addr in the storage. It reports false if they are not all inside. No step of it
// can overflow.
func (g *grant) span(addr, n uint64) (uint64, bool) {
	d := addr - g.base
	if addr < g.base || d > g.length || n > g.length-d {
		return 0, false
	}
	return g.off + d, true
}

// withdraw ends a grant that has left its slot, or that never was in one.
func (g *grant) withdraw() {
	for _, d := range g.dmas {
		d.refs.Put()
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

// enter begins an access. It reports false if the thing has been withdrawn.
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

// end withdraws the thing: no access can begin afterwards.
func (u *use) end() {
	if u.n.Or(withdrawn) == 0 {
		u.settle()
	}
}

// settle runs when the last use ends. An access that began too late may cause a second call, which does nothing.
func (u *use) settle() {
	u.mu.Lock()
	then := u.then
	u.quiet, u.then = true, nil
	u.mu.Unlock()
	for _, f := range then {
		f()
	}
}

// settled reports whether the thing is withdrawn and not in use. If not, f is called when it is, unless f is nil.
func (u *use) settled(f func()) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.quiet && f != nil {
		u.then = append(u.then, f)
	}
	return u.quiet
}
