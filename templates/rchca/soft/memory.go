package soft

import (
	"ciddk/ci"
	"ciddk/templates/rchca"
)

// A span is a part of a region.
type span struct {
	b   []byte    // the bytes, if this process can address them
	mem ci.Memory // else the memory, whose bytes are reached by copies
	off uint64    // in mem
	n   uint64
}

// direct returns a span of bytes of this process.
func direct(b []byte) span { return span{b: b, n: uint64(len(b))} }

// cut returns s without its first k bytes.
func (s span) cut(k uint64) span {
	if s.mem == nil {
		return direct(s.b[k:])
	}
	return span{mem: s.mem, off: s.off + k, n: s.n - k}
}

// region returns n bytes at an address of a region, if key, PD, bounds and rights allow it.
func (d *Device) region(pd uint32, k ci.Key, addr, n uint64, need ci.Access) (list []span, ok bool) {
	r := d.mrs[k]
	if r == nil || r.PD != pd || r.Access&need != need || addr < r.Addr {
		return nil, false
	}
	return pieces(r, addr-r.Addr, n)
}

// pieces returns n bytes of a region, if it has them.
func pieces(r *rchca.Region, off, n uint64) (list []span, ok bool) {
	if r.Pieces == nil {
		if off > r.Length || n > r.Length-off {
			return nil, false
		}
		return []span{{mem: r.Memory, off: r.Offset + off, n: n}}, true
	}
	for _, b := range r.Pieces {
		if off >= uint64(len(b)) {
			off -= uint64(len(b))
			continue
		}
		b = b[off:]
		off = 0
		if uint64(len(b)) >= n {
			return append(list, direct(b[:n])), true
		}
		list, n = append(list, direct(b)), n-uint64(len(b))
	}
	return nil, false
}

// resolve returns the bytes of a list of segments. An empty segment has no memory, and its key is not checked.
func (d *Device) resolve(pd uint32, sgl []ci.SGE, need ci.Access) (list []span, total uint64, ok bool) {
	for _, s := range sgl {
		if s.Length == 0 {
			continue
		}
		b, ok := d.region(pd, s.LKey, s.Addr, uint64(s.Length), need)
		if !ok {
			return nil, 0, false
		}
		list, total = append(list, b...), total+uint64(s.Length)
	}
	return list, total, true
}

// A copyResult is the result of copyAll.
type copyResult uint8

const (
	copied   copyResult = iota
	noSource            // the source does not exist any more
	noTarget            // the destination does not exist any more
)

// maxCopy is the most bytes that are copied at a time to or from memory that this process cannot address.
const maxCopy = 64 << 10

// copyAll copies n bytes between two lists. It stores the last aligned word last, with release, because a consumer may
// poll it. Memory of a process that has exited or has unmapped it cannot be copied.
func (f *Fabric) copyAll(dst, src []span, n uint64) copyResult {
	for n > 0 {
		for dst[0].n == 0 {
			dst = dst[1:]
		}
		for src[0].n == 0 {
			src = src[1:]
		}
		to, from := dst[0], src[0]
		k := min(to.n, from.n, n)
		b := from.b
		if from.mem != nil {
			k = min(k, maxCopy)
			if f.bounce == nil {
				f.bounce = make([]byte, maxCopy)
			}
			b = f.bounce
			if got, err := from.mem.ReadAt(b[:k], int64(from.off)); err != nil && uint64(got) < k {
				return noSource
			}
		}
		switch {
		case to.mem != nil:
			if _, err := to.mem.WriteAt(b[:k], int64(to.off)); err != nil {
				return noTarget
			}
		case k == n:
			copyLast(to.b[:k], b[:k])
		default:
			copy(to.b[:k], b[:k])
		}
		dst[0], src[0], n = to.cut(k), from.cut(k), n-k
	}
	return copied
}
