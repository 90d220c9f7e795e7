package vfiouser

import (
	"slices"

	"golang.org/x/sys/unix"

	"ciddk/internal/passedfd"
)

func (s *session) irqInfo(b []byte) ([]byte, unix.Errno) {
	i, ok := index(b, irqInfoSize)
	if !ok || i >= numIRQs {
		return nil, unix.EINVAL
	}
	return words(start(irqInfoSize), irqInfoSize, irqEventfd|irqNoResize, i, uint32(s.numIRQs(i))), 0
}

// numIRQs returns the number of interrupts of an index. An index for errors exists so that drivers find it; the device
// raises none.
func (s *session) numIRQs(i uint32) int {
	switch i {
	case irqMSIX:
		return s.dev.NumVectors()
	case irqError:
		return 1
	}
	return 0
}

// setIRQs enables, disables and triggers interrupts. A driver enables MSI-X in steps: with a descriptor for each
// vector, or with fewer, of which the missing ones are disabled.
func (s *session) setIRQs(m *message) unix.Errno {
	r, data, ok := parseSetIRQs(m.body)
	if !ok || r.Index >= numIRQs {
		return unix.EINVAL
	}
	all := uint32(s.numIRQs(r.Index))
	kind := r.Flags & irqDataMask
	switch {
	case r.Count == 0 && r.Start == 0 && kind == irqDataNone && r.Flags&irqTrigger != 0:
		s.setOther(r.Index, nil)
		if r.Index == irqMSIX {
			s.setVectors(nil)
		}
		return 0
	case r.Start > all || r.Count > all-r.Start || r.Count == 0:
		return unix.EINVAL
	case r.Flags&irqTrigger == 0:
		return unix.ENOTSUP // interrupts of the device are not masked here
	case kind == irqDataEvent:
		return s.assign(&r, m)
	case r.Index != irqMSIX:
		return 0
	case kind == irqDataNone:
		for i := range r.Count {
			s.Interrupt(int(r.Start + i))
		}
		return 0
	case kind == irqDataBool && len(data) >= int(r.Count):
		for i := range r.Count {
			if data[i] != 0 {
				s.Interrupt(int(r.Start + i))
			}
		}
		return 0
	}
	return unix.EINVAL
}

// assign assigns eventfds to interrupts.
func (s *session) assign(r *setIRQs, m *message) unix.Errno {
	isOther := func(k passedfd.Kind) bool { return k != passedfd.Nameless }
	if len(m.files) > int(r.Count) || slices.ContainsFunc(m.kinds, isOther) {
		return unix.EINVAL
	}
	list := make([]*eventFD, r.Count)
	for i, f := range m.files {
		e, err := newEventFD(f)
		if err != nil {
			return errnoOf(err) // the caller closes the files
		}
		list[i] = e
	}
	m.files, m.kinds = nil, nil // they are the eventfds'
	if r.Index != irqMSIX {
		s.setOther(r.Index, list[0])
		return 0
	}
	now := *s.vectors.Load()
	next := make([]*eventFD, max(len(now), int(r.Start+r.Count)))
	copy(next, now)
	copy(next[r.Start:], list)
	s.vectors.Store(&next)
	for i := r.Start; i < r.Start+r.Count && int(i) < len(now); i++ {
		now[i].close()
	}
	return 0
}

func (s *session) setOther(i uint32, e *eventFD) {
	s.other[i].close()
	s.other[i] = e
}

// setVectors replaces all vectors.
func (s *session) setVectors(list []*eventFD) {
	for _, e := range *s.vectors.Swap(&list) {
		e.close()
	}
}
