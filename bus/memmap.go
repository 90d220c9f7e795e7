package bus

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
)

// A Map is the memory that a device can reach, by I/O virtual address (IOVA). Readers take no lock. Unmap waits until
// accesses that have begun have ended, so that the memory can be released.
type Map struct {
	now   atomic.Pointer[table]
	phase atomic.Uint32
	users [2]paddedCount // of accesses in progress, by the phase in which they began

	mu      sync.Mutex // of changes
	drained chan struct{}
}

// paddedCount is a counter in a cache line of its own.
type paddedCount struct {
	n atomic.Int64
	_ [56]byte
}

// table is one version of the map: regions by address.
type table []region

type region struct {
	iova     uint64
	b        []byte // nil: an address range without memory, such as a ROM, or remote is set
	size     uint64
	writable bool
	remote   Remote // or nil

	fault func(iova uint64) // not nil: an access to b may fault
}

// MaxRegions is the most regions of a Map.
const MaxRegions = 4096

// Errors of Map.
var (
	ErrOverlap   = errors.New("bus: the range overlaps another one of the map")
	ErrNotMapped = errors.New("bus: the range is not mapped")
	ErrTooMany   = errors.New("bus: too many regions in the map")
)

// NewMap returns an empty map.
func NewMap() *Map {
	m := &Map{drained: make(chan struct{}, 1)}
	m.now.Store(new(table))
	return m
}

// Add maps size bytes at iova. b are the bytes, or nil for a range that exists and has no memory. Errors: ErrOverlap,
// ErrTooMany, and others for a range that is not one.
func (m *Map) Add(iova, size uint64, b []byte, writable bool) error {
	if b != nil && uint64(len(b)) != size {
		return fmt.Errorf("bus: %d bytes at %#x cannot be mapped to %d", size, iova, len(b))
	}
	return m.add(region{iova: iova, b: b, size: size, writable: writable})
}

// AddRemote maps size bytes at iova that are reached by copies. See Add.
func (m *Map) AddRemote(iova, size uint64, r Remote, writable bool) error {
	return m.add(region{iova: iova, size: size, writable: writable, remote: r})
}

// AddGuarded maps the bytes b at iova, which may turn out to be missing when they are accessed: a mapping of a file
// that another process can truncate, or whose file system can be full. Slice returns none of them. The other accesses
// fail then, and call fault, which does not block. See Add.
func (m *Map) AddGuarded(iova uint64, b []byte, writable bool, fault func(iova uint64)) error {
	return m.add(region{iova: iova, b: b, size: uint64(len(b)), writable: writable, fault: fault})
}

// AddMemory maps memory of a driver at iova, its bytes or what Remote reaches. See Add.
func (m *Map) AddMemory(iova uint64, x Memory) error {
	if x.Remote != nil {
		return m.AddRemote(iova, x.Length, x.Remote, true)
	}
	return m.Add(iova, x.Len(), x.Bytes, true)
}

func (m *Map) add(r region) error {
	iova, size := r.iova, r.size
	if size == 0 || iova+size < iova {
		return fmt.Errorf("bus: %d bytes at %#x cannot be mapped", size, iova)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	old := *m.now.Load()
	if len(old) == MaxRegions {
		return fmt.Errorf("%w: %d", ErrTooMany, MaxRegions)
	}
	i := old.search(iova)
	if i > 0 && old[i-1].end() > iova || i < len(old) && old[i].iova < iova+size {
		return fmt.Errorf("%w: %d bytes at %#x", ErrOverlap, size, iova)
	}
	t := slices.Insert(slices.Clone(old), i, r)
	m.now.Store(&t)
	return nil
}

// Remove unmaps a range, which consists of whole regions, and waits until no access uses them. It returns their bytes,
// in the order of their addresses, nil for a region without. Errors: ErrNotMapped.
func (m *Map) Remove(iova, size uint64) ([][]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := *m.now.Load()
	i := old.search(iova)
	j := i
	for j < len(old) && old[j].iova-iova < size && old[j].size <= size-(old[j].iova-iova) {
		j++
	}
	partial := i > 0 && old[i-1].end() > iova || j < len(old) && old[j].iova-iova < size
	if i == j || partial {
		return nil, fmt.Errorf("%w as whole regions: %d bytes at %#x", ErrNotMapped, size, iova)
	}
	return m.cut(old, i, j), nil
}

// Clear unmaps everything. See Remove.
func (m *Map) Clear() [][]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := *m.now.Load()
	return m.cut(old, 0, len(old))
}

// cut removes the regions i to j-1. mu is held.
func (m *Map) cut(old table, i, j int) [][]byte {
	removed := make([][]byte, 0, j-i)
	for _, r := range old[i:j] {
		removed = append(removed, r.b)
	}
	t := slices.Delete(slices.Clone(old), i, j)
	m.now.Store(&t)
	m.wait()
	return removed
}

// wait returns when all accesses have ended that may use an older version. New accesses count in the other phase, so
// they cannot prolong the wait. Each phase is waited for once, since an access may count in a phase that it read before
// it changed. mu is held.
func (m *Map) wait() {
	for range 2 {
		old := m.phase.Load()
		m.phase.Store(1 - old)
		for m.users[old].n.Load() != 0 {
			<-m.drained
		}
	}
}

// Borrow begins an access that consists of calls of Slice, for a caller that cannot keep a View. It does not block.
// The result is for Return. See Begin.
func (m *Map) Borrow() (loan uint32) { return m.Begin().phase }

// Return ends an access that Borrow has begun.
func (m *Map) Return(loan uint32) { View{m: m, phase: loan}.End() }

// Slice is View.Slice between Borrow and Return. It looks at the present version of the map.
func (m *Map) Slice(iova, n uint64, write bool) []byte {
	return View{m: m, t: *m.now.Load()}.Slice(iova, n, write)
}

// A Hint remembers where SliceNear has found an address, which saves the search of the map for one beside it. The zero
// Hint is valid. Goroutines may share it.
type Hint struct{ index atomic.Uint32 }

// SliceNear is Slice, which begins its search at the hint.
func (m *Map) SliceNear(h *Hint, iova, n uint64, write bool) []byte {
	t := *m.now.Load()
	i := int(h.index.Load())
	if i >= len(t) || iova-t[i].iova >= t[i].size {
		if i = t.search(iova+1) - 1; i < 0 {
			return nil
		}
		h.index.Store(uint32(i))
	}
	return t[i].slice(iova, n, write)
}

// A View is the map during one access. It must be ended. The zero View is not valid.
type View struct {
	m     *Map
	t     table
	phase uint32
}

// Begin begins an access: slices of the view are valid until End. It must not be kept for longer than a copy takes,
// because Remove waits for it. Remove must not be called during an access of the same goroutine.
func (m *Map) Begin() View {
	p := m.phase.Load()
	m.users[p].n.Add(1)
	return View{m, *m.now.Load(), p}
}

// End ends the access.
func (v View) End() {
	if v.m.users[v.phase].n.Add(-1) != 0 || v.m.phase.Load() == v.phase {
		return
	}
	select {
	case v.m.drained <- struct{}{}:
	default:
	}
}

// Slice returns the bytes from iova to the end of their region, at most n. It returns nil if there are none, if they
// are Remote or guarded, or if write is set and they may not be written.
func (v View) Slice(iova, n uint64, write bool) []byte {
	i := v.t.search(iova + 1)
	if i == 0 {
		return nil
	}
	return v.t[i-1].slice(iova, n, write)
}

// slice is View.Slice of a region that begins at iova or below.
func (r *region) slice(iova, n uint64, write bool) []byte {
	off := iova - r.iova
	if off >= uint64(len(r.b)) || write && !r.writable || r.fault != nil {
		return nil
	}
	return r.b[off : off+min(n, uint64(len(r.b))-off)]
}

// An Atomic is an operation on a word of 8 bytes: FetchAdd with Operand, or, if IsSwap is set, CompareSwap.
type Atomic struct {
	IsSwap           bool
	Compare, Operand uint64
}

// Atomic executes an operation on the word at iova, which is a multiple of 8. ok is false if the word cannot be
// reached.
func (v View) Atomic(iova uint64, a Atomic) (old uint64, ok bool) {
	i := v.t.search(iova + 1)
	if i == 0 || iova%8 != 0 {
		return 0, false
	}
	r := &v.t[i-1]
	off := iova - r.iova
	if off >= r.size || r.size-off < 8 || !r.writable {
		return 0, false
	}
	var err error
	switch {
	case r.remote == nil:
		return r.atomic(off, a)
	case a.IsSwap:
		old, err = r.remote.CompareSwap(off, a.Compare, a.Operand)
	default:
		old, err = r.remote.FetchAdd(off, a.Operand)
	}
	return old, err == nil
}

// atomic executes an operation on a word of the region's bytes.
func (r *region) atomic(off uint64, a Atomic) (old uint64, ok bool) {
	if off+8 > uint64(len(r.b)) || address(r.b[off:])%8 != 0 {
		return 0, false
	}
	if r.fault != nil {
		was := debug.SetPanicOnFault(true)
		defer func() { r.recovered(was, recover(), off, &ok) }()
	}
	return operate(r.b[off:off+8], a), true
}

// recovered ends an access to memory that may fault. e is what it panicked with.
func (r *region) recovered(was bool, e any, off uint64, ok *bool) {
	debug.SetPanicOnFault(was)
	if e == nil {
		return
	}
	if _, isFault := e.(interface{ Addr() uintptr }); !isFault {
		panic(e)
	}
	*ok = false
	r.fault(r.iova + off)
}

// Read copies memory from the map. It reports false if part of the range is not mapped; then b has arbitrary contents.
// A dword that is aligned is read as a whole.
func (m *Map) Read(iova uint64, b []byte) bool {
	v := m.Begin()
	defer v.End()
	for len(b) > 0 {
		n := v.access(iova, b, false)
		if n == 0 {
			return false
		}
		b, iova = b[n:], iova+uint64(n)
	}
	return true
}

// Write copies memory to the map, the last aligned word after all other bytes, unless they are Remote. It reports
// false, and may have written a part, if part of the range is not mapped or may not be written. A dword that is aligned
// is written as a whole.
func (m *Map) Write(iova uint64, b []byte) bool {
	v := m.Begin()
	defer v.End()
	for len(b) > 0 {
		n := v.access(iova, b, true)
		if n == 0 {
			return false
		}
		b, iova = b[n:], iova+uint64(n)
	}
	return true
}

// access copies from or to memory at iova, as much of b as one region has. It returns the number of bytes, or 0 if they
// cannot be reached.
func (v View) access(iova uint64, b []byte, write bool) int {
	i := v.t.search(iova + 1)
	if i == 0 {
		return 0
	}
	r := &v.t[i-1]
	off := iova - r.iova
	if off >= r.size || write && !r.writable {
		return 0
	}
	b = b[:min(uint64(len(b)), r.size-off)]
	ok := false
	switch {
	case r.remote != nil && write:
		ok = writeRemote(r.remote, b, off)
	case r.remote != nil:
		ok = readRemote(r.remote, b, off)
	case r.b == nil:
	case r.fault != nil:
		ok = r.copyGuarded(off, b, write)
	case write:
		store(r.b[off:], b)
		ok = true
	default:
		load(b, r.b[off:])
		ok = true
	}
	if !ok {
		return 0
	}
	return len(b)
}

// copyGuarded copies from or to bytes that may be missing.
func (r *region) copyGuarded(off uint64, b []byte, write bool) (ok bool) {
	was := debug.SetPanicOnFault(true)
	defer func() { r.recovered(was, recover(), off, &ok) }()
	if write {
		store(r.b[off:], b)
	} else {
		load(b, r.b[off:])
	}
	return true
}

// readRemote copies from remote memory. It has a buffer of its own, since a slice that is passed to an interface moves
// to the heap, also where the memory is not remote.
func readRemote(r Remote, b []byte, off uint64) bool {
	own := make([]byte, len(b))
	n, _ := r.ReadAt(own, int64(off)) // a reader may return EOF with all bytes
	return copy(b, own[:n]) == len(b)
}

// writeRemote copies to remote memory. It has a buffer of its own, as readRemote has.
func writeRemote(r Remote, b []byte, off uint64) bool {
	n, err := r.WriteAt(append([]byte(nil), b...), int64(off))
	return err == nil && n == len(b)
}

// Len returns the number of regions.
func (m *Map) Len() int { return len(*m.now.Load()) }

func (r *region) end() uint64 { return r.iova + r.size }

// search returns the index of the first region at iova or above. It is sort.Search without calls of a function.
func (t table) search(iova uint64) int {
	lo, hi := 0, len(t)
	for lo < hi {
		if mid := int(uint(lo+hi) >> 1); t[mid].iova < iova {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}
