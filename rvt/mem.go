package rvt

import (
	"errors"

	"ciddk/ci"
)

// How the engine reaches memory. A virtual address is a number in its region's own space; bytes are reached only as
// (key, offset), after a check of key, protection domain, rights and bounds (decision 2).
//
// A held region cannot vanish: MR.Destroy and the other thread verbs first make the key useless, then wait until nobody
// holds the region any more. Work requests that withdraw a key (invalidations, binds, fast registration) make it
// useless, too, but do not wait: see keyTable.settled. Holds last no longer than one run of a QP, in which nothing
// waits.

// mem is a checked piece of a region, at off of its bytes. Its mr is nil for an empty piece.
type mem struct {
	mr  *storage
	off uint64
}

// advance is the piece behind the first n bytes.
func (m mem) advance(n uint64) mem { return mem{m.mr, m.off + n} }

// storage is the bytes of a region: one slice in most cases, else segments.
type storage struct {
	flat []byte // all of it, when segs is nil
	segs []segment
}

// segment is a run of storage that is addressed in one way.
type segment struct {
	start, n uint64 // offset of the first byte in the region, and count
	b        []byte // nil: copies only
	m        ci.Memory
	at       uint64 // offset of the first byte in m
}

// The faults exist in advance: an access fails without allocation.
var (
	errOutside    = errors.New("rvt: access beyond the end of a region")
	errMisaligned = errors.New("rvt: atomic operand is not aligned to 8 bytes in storage")
	errNotDirect  = errors.New("rvt: atomics need storage that this process can address")
)

// newStorage makes storage of segments, whose offsets it fills in.
func newStorage(segs []segment) *storage {
	if len(segs) == 1 && segs[0].b != nil {
		return &storage{flat: segs[0].b}
	}
	var start uint64
	for i := range segs {
		segs[i].start = start
		start += segs[i].n
	}
	return &storage{segs: segs}
}

// len is the number of bytes.
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

// find is the index of the segment that holds the byte at off.
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

// part is the piece of the segment from off of the region, at most n bytes.
func (s *segment) part(off, n uint64) segment {
	d := off - s.start
	n = min(n, s.n-d)
	p := segment{n: n, m: s.m, at: s.at + d}
	if s.b != nil {
		p.b = s.b[d : d+n : d+n]
	}
	return p
}

// parts is the storage of n bytes at off, which exist.
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

// slices appends views of the n bytes to dst. It reports false, and dst as it was, where bytes cannot be addressed
// directly.
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

// read copies out of the region.
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

// write copies into the region. After an error, part of it may have been written.
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

// writeLast is write for the end of an RDMA WRITE's message: the last aligned 8 bytes are stored after all others, with
// a release store where the storage is addressed directly (package ci, memory model). Aligned is what is aligned in
// storage. Where p is so short, or its segments so odd, that it holds no such 8 bytes, it is an ordinary write.
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

// lastWord is the offset in s of its last aligned 8 bytes.
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
