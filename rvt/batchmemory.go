package rvt

import "ciddk/ci"

// batchMemoryOf returns the memory of segments whose ranges are copied together, and its copier, or nil.
func batchMemoryOf(segs []segment) (ci.BatchMemory, ci.Copier) {
	if len(segs) != 1 || segs[0].b != nil {
		return nil, nil
	}
	m, ok := segs[0].m.(ci.BatchMemory)
	if !ok {
		return nil, nil
	}
	return m, m.Copier()
}
