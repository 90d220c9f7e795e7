package kproxy

import "ciddk/ci"

// place is where bytes are in the memory of a process.
type place struct {
	addr  uint64
	token uint64 // schema.Memory.FileOffset of the registration; 0: memory that a driver reaches by Process.Memory
}

// plus returns the place n bytes further.
func (p place) plus(n uint64) place { return place{p.addr + n, p.token} }

// reach is a means to copy from and to the memory of a process.
type reach interface {
	read(b []byte, from place) (int, error)
	write(b []byte, to place) (int, error)
	// copySpans is ci.Copier's, for memory that exists.
	copySpans(list []ci.Span, isWrite bool) (done int, err error)
	// abort ends a copy that takes too long, if that is possible. stuck is the error of that copy and of later ones.
	abort() (stuck error)
	close()
}

// copyEach is reach.copySpans by a call for each span.
func copyEach(r reach, list []ci.Span, isWrite bool) (done int, err error) {
	f := r.read
	if isWrite {
		f = r.write
	}
	for i := range list {
		if _, err := f(list[i].Bytes, placeOf(&list[i])); err != nil {
			return i, err
		}
	}
	return len(list), nil
}
