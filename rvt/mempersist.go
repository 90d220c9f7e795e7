package rvt

import "ciddk/ci"

// persist makes n bytes persistent. It fails if a part of them is in memory that cannot be.
func (m mem) persist(n uint64) error {
	if n == 0 {
		return nil
	}
	if y := m.mr.persistent; y != nil {
		return y.persist(m.off, n)
	}
	for _, s := range m.mr.parts(m.off, n) {
		if err := s.persist(0, s.n); err != nil {
			return err
		}
	}
	return nil
}

// persist makes n bytes at off of the segment persistent.
func (s *segment) persist(off, n uint64) error {
	p, ok := s.m.(ci.PersistentMemory)
	if !ok {
		return errNotPersistent
	}
	return p.Persist(s.at+off, n)
}

// checkPersistent returns an error if a region with the rights a needs memory that is persistent, and y is not.
func (y *storage) checkPersistent(verb string, a ci.Access) error {
	if a&ci.FlushPersistent == 0 {
		return nil
	}
	ok := y.segs != nil || y.persistent != nil
	for i := range y.segs {
		_, isPersistent := y.segs[i].m.(ci.PersistentMemory)
		ok = ok && isPersistent
	}
	if !ok {
		return failf(verb, ci.InvalidParameter, "FlushPersistent needs ci.PersistentMemory")
	}
	return nil
}
