package rvt

import "ciddk/ci"

// ahead holds data that has been read before the packets that carry it.
type ahead struct {
	copier ci.Copier
	spans  []ci.Span
	from   []mem // of each span
	next   int
}

// drop forgets what has been read ahead.
func (a *ahead) drop() {
	if len(a.spans) > 0 {
		clear(a.spans)
		clear(a.from)
		a.spans, a.from, a.next = a.spans[:0], a.from[:0], 0
	}
}

// take returns the n bytes of m if they have been read ahead next.
func (a *ahead) take(m mem, n uint32) []byte {
	if a.next == len(a.spans) || a.from[a.next] != m || len(a.spans[a.next].Bytes) != int(n) {
		return nil
	}
	a.next++
	return a.spans[a.next-1].Bytes
}

// isUsed reports whether nothing is left of what has been read ahead.
func (a *ahead) isUsed() bool { return a.next == len(a.spans) }
