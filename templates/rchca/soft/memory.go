package soft

import "ciddk/ci"

// region returns n bytes at an address of a region, if key, PD, bounds and rights allow it.
func (d *Device) region(pd uint32, k ci.Key, addr, n uint64, need ci.Access) (list [][]byte, ok bool) {
	r := d.mrs[k]
	if r == nil || r.PD != pd || r.Access&need != need || addr < r.Addr {
		return nil, false
	}
	off := addr - r.Addr
	for _, b := range r.Pieces {
		if off >= uint64(len(b)) {
			off -= uint64(len(b))
			continue
		}
		b = b[off:]
		off = 0
		if uint64(len(b)) >= n {
			return append(list, b[:n]), true
		}
		list, n = append(list, b), n-uint64(len(b))
	}
	return nil, false
}

// resolve returns the bytes of a list of segments. An empty segment has no memory, and its key is not checked.
func (d *Device) resolve(pd uint32, sgl []ci.SGE, need ci.Access) (list [][]byte, total uint64, ok bool) {
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

// copyAll copies n bytes between two lists of slices. It stores the last aligned word last, with release, because a
// consumer may poll it.
func copyAll(dst, src [][]byte, n uint64) {
	for n > 0 {
		for len(dst[0]) == 0 {
			dst = dst[1:]
		}
		for len(src[0]) == 0 {
			src = src[1:]
		}
		k := min(uint64(min(len(dst[0]), len(src[0]))), n)
		if k == n {
			copyLast(dst[0][:k], src[0][:k])
			return
		}
		copy(dst[0][:k], src[0][:k])
		dst[0], src[0], n = dst[0][k:], src[0][k:], n-k
	}
}
