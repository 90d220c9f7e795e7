package rvt

import (
	"errors"

	"ciddk/ci"
)

// Memory is reached by key and offset, so that it may belong to another process. A virtual address is a number in its
// region's own space. Each access is checked against key, protection domain, rights and bounds.
//
// A turn holds the regions that it uses. MR.Destroy and the other thread verbs first invalidate the key and then wait
// until no turn holds the region. Work requests that withdraw a key (invalidations, binds, fast registration)
// invalidate it and do not wait: see keyTable.settled. A turn releases its regions when it ends, and nothing in it
// waits.

// mem is a part of a region that has been checked for an access. It begins at off. mr is nil for an empty part.
type mem struct {
	mr  *storage
	off uint64
}

// advance returns the part behind the first n bytes.
func (m mem) advance(n uint64) mem { return mem{m.mr, m.off + n} }

// storage holds the bytes of a region: one slice in most cases, otherwise segments.
type storage struct {
	flat       []byte // all of it, when segs is nil
	segs       []segment
	persistent *segment   // that of flat, if its memory is persistent
	lent       LentMemory // of the only segment, if a turn can borrow it

	batch  ci.BatchMemory // of the only segment, if its ranges are copied together,
	copier ci.Copier      // by this
}

// segment is a part of storage with one backing: a slice, or a ci.Memory that must be copied.
type segment struct {
	start, n uint64 // offset of the first byte in the region, and count
	b        []byte // nil: copies only
	m        ci.Memory
	at       uint64 // offset of the first byte in m
}

// The errors are allocated in advance, so that an access that fails allocates nothing.
var (
	errOutside    = errors.New("rvt: access beyond the end of a region")
	errMisaligned = errors.New("rvt: atomic operand is not aligned to 8 bytes in storage")
	errNotDirect  = errors.New("rvt: atomics need storage that this process can address")

	errNotPersistent = errors.New("rvt: storage that is not persistent")
)

// newStorage returns storage of segments. It sets their offsets.
func newStorage(segs []segment) *storage {
	if len(segs) == 1 && segs[0].b != nil {
		y := &storage{flat: segs[0].b}
		if _, ok := segs[0].m.(ci.PersistentMemory); ok {
			y.persistent = &segs[0]
		}
		return y
	}
	var start uint64
	for i := range segs {
		segs[i].start = start
		start += segs[i].n
	}
	y := &storage{segs: segs, lent: lentOf(segs)}
	y.batch, y.copier = batchMemoryOf(segs)
	return y
}

// len returns the number of bytes.
func (y *storage) len() uint64 {
	if y.segs == nil {
		return uint64(len(y.flat))
	}
	last := y.segs[len(y.segs)-1]
	return last.start + last.n
}

// has reports whether n bytes exist at off.
func (y *storage) has(off, n uint64) bool {
	size := y.len()
	return off <= size && n <= size-off
}

// find returns the index of the segment that holds the byte at off.
func (y *storage) find(off uint64) int {
	lo, hi := 0, len(y.segs)
	for hi-lo > 1 {
		if mid := int(uint(lo+hi) >> 1); y.segs[mid].start <= off {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// part returns the part of the segment from offset off of the region, at most n bytes.
func (s *segment) part(off, n uint64) segment {
	d := off - s.start
	n = min(n, s.n-d)
	p := segment{n: n, m: s.m, at: s.at + d}
	if s.b != nil {
		p.b = s.b[d : d+n : d+n]
	}
	return p
}

// parts returns the storage of n bytes at off, which must exist.
func (y *storage) parts(off, n uint64) []segment {
	if y.segs == nil {
		return []segment{{n: n, b: y.flat[off : off+n : off+n]}}
	}
	var p []segment
	for i := y.find(off); n > 0; i++ {
		s := y.segs[i].part(off, n)
		p = append(p, s)
		off += s.n
		n -= s.n
	}
	return p
}

func (s *segment) read(p []byte) error {
	if s.b != nil {
		copy(p, s.b)
		return nil
	}
	if n, err := s.m.ReadAt(p[:s.n], int64(s.at)); uint64(n) < s.n {
		return faultOf(err)
	}
	return nil
}

func (s *segment) write(p []byte) error {
	if s.b != nil {
		copy(s.b, p)
		return nil
	}
	if n, err := s.m.WriteAt(p[:s.n], int64(s.at)); uint64(n) < s.n || err != nil {
		return faultOf(err)
	}
	return nil
}

func faultOf(err error) error {
	if err == nil {
		return errOutside
	}
	return err
}

// slices appends views of n bytes to dst. If not all bytes can be addressed directly, it returns dst unchanged and
// false.
func (m mem) slices(dst [][]byte, n uint32) ([][]byte, bool) {
	if n == 0 {
		return dst, true
	}
	y, left := m.mr, uint64(n)
	if y == nil || !y.has(m.off, left) {
		return dst, false
	}
	if y.segs == nil {
		return append(dst, y.flat[m.off:m.off+left:m.off+left]), true
	}
	views, off := dst, m.off
	for i := y.find(off); left > 0; i++ {
		s := y.segs[i].part(off, left)
		if s.b == nil {
			return dst, false
		}
		views = append(views, s.b)
		off += s.n
		left -= s.n
	}
	return views, true
}

// read copies from the region to p.
func (m mem) read(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	y := m.mr
	if y == nil || !y.has(m.off, uint64(len(p))) {
		return errOutside
	}
	if y.segs == nil {
		copy(p, y.flat[m.off:])
		return nil
	}
	for i, off := y.find(m.off), m.off; len(p) > 0; i++ {
		s := y.segs[i].part(off, uint64(len(p)))
		if err := s.read(p); err != nil {
			return err
		}
		p = p[s.n:]
		off += s.n
	}
	return nil
}

// write copies p to the region. After an error, a part may have been written.
func (m mem) write(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	y := m.mr
	if y == nil || !y.has(m.off, uint64(len(p))) {
		return errOutside
	}
	if y.segs == nil {
		copy(y.flat[m.off:], p)
		return nil
	}
	for i, off := y.find(m.off), m.off; len(p) > 0; i++ {
		s := y.segs[i].part(off, uint64(len(p)))
		if err := s.write(p); err != nil {
			return err
		}
		p = p[s.n:]
		off += s.n
	}
	return nil
}

// span returns the n bytes of batch memory that m begins with.
func (m mem) span(b []byte) ci.Span {
	return ci.Span{Memory: m.mr.batch, Off: m.mr.segs[0].at + m.off, Bytes: b}
}

// isBatch reports whether the n bytes that m begins with are copied by a ci.Copier.
func (m mem) isBatch(n uint32) bool {
	return n > 0 && m.mr != nil && m.mr.copier != nil && m.mr.has(m.off, uint64(n))
}

// writeLast writes p as the end of an RDMA WRITE. The last 8 bytes of p that are aligned in the storage are stored
// after all others. This is a release store if the storage is addressed directly (package ci, memory model). If p has
// no such 8 bytes in one segment of the storage, writeLast does the same as write.
func (m mem) writeLast(p []byte) error {
	y, n := m.mr, uint64(len(p))
	if n < 8 || y == nil || !y.has(m.off, n) {
		return m.write(p)
	}
	end := m.off + n
	for {
		s := segment{start: m.off, n: end - m.off}
		if y.segs == nil {
			s.b = y.flat[m.off:end]
		} else {
			whole := &y.segs[y.find(end-1)]
			s.start = max(whole.start, m.off)
			start := s.start
			s = whole.part(start, end-start)
			s.start = start
		}
		if last, ok := s.lastWord(); ok {
			at := s.start - m.off + last // of the word, in p
			if err := m.write(p[:at]); err != nil {
				return err
			}
			if err := m.advance(at + 8).write(p[at+8:]); err != nil {
				return err
			}
			if s.b == nil {
				return m.advance(at).write(p[at : at+8])
			}
			storeRelease(s.b[last:], p[at:])
			return nil
		}
		if end = s.start; end == m.off {
			return m.write(p)
		}
	}
}

// lastWord returns the offset in s of its last aligned 8 bytes, and whether there are any.
func (s *segment) lastWord() (uint64, bool) {
	var tail uint64 // bytes behind the word
	if s.b != nil {
		tail = endMisalignment(s.b)
	} else {
		tail = (s.m.Addr() + s.at + s.n) & 7
	}
	if s.n < tail+8 {
		return 0, false
	}
	return s.n - tail - 8, true
}
