package rvt

import "ciddk/ci"

// Memory of other processes is reached by system calls, so the engine copies many ranges by one call (ci.BatchMemory).
// What a requester sends next is read ahead. What a responder receives is stored late: at the end of a delivery, or
// before anything that may follow it, such as a completion, an answer, or a store to other memory.

// A lateStore is a span that a packet has to store, and what its failure undoes.
type lateStore struct {
	psn   ci.PSN // of the packet
	msn   uint32
	wcs   int     // completions before the packet
	fails outcome // of the packet, if the store fails
	owns  bool    // the packet's message has taken a receive
}

// late holds stores that have not been executed.
type late struct {
	by     *responder // whose packet is being stored; nil: stores are executed at once
	owns   bool       // lateStore.owns of that packet
	atOnce bool       // no store is late: packets of a train whose store has failed
	copier ci.Copier
	spans  []ci.Span
	stores []lateStore // for each span
	failed lateStore
}

const (
	// lateSpans is the number of spans after which they are stored.
	lateSpans = 256
	// lateCompletions is the room for completions that a packet leaves. One packet completes two receives at most.
	lateCompletions = 4
)

// mustSettle reports whether late stores are to be executed before another packet.
func (t *turn) mustSettle() bool {
	return len(t.late.spans) >= lateSpans || len(t.late.spans) > 0 && t.nwcs > len(t.wcs)-lateCompletions
}

// addLate adds a store of p to batch memory.
func (t *turn) addLate(m mem, p []byte, fails outcome) {
	if len(p) == 0 {
		return
	}
	l := &t.late
	s := lateStore{fails: fails, owns: l.owns, wcs: t.nwcs}
	if l.by != nil {
		s.psn, s.msn = l.by.psn, l.by.msn
	}
	l.copier = m.mr.copier
	l.spans = append(l.spans, m.span(p))
	l.stores = append(l.stores, s)
}

// prepareLate executes late stores that must not be behind one to m, and reports whether they have succeeded.
func (t *turn) prepareLate(m mem) bool {
	l := &t.late
	return len(l.spans) == 0 || l.by != nil && m.mr != nil && m.mr.copier == l.copier || t.settle()
}

// endLate ends a store to batch memory.
func (t *turn) endLate(fails outcome) outcome {
	if t.late.by != nil || t.settle() {
		return placed
	}
	return fails
}

// settle executes the late stores. If one fails, it is t.late.failed, and none behind it is executed.
func (t *turn) settle() bool {
	l := &t.late
	if len(l.spans) == 0 {
		return true
	}
	done, err := l.copier.CopySpans(l.spans, true)
	if err != nil {
		l.failed = l.stores[min(done, len(l.stores)-1)]
	}
	clear(l.spans)
	l.copier, l.spans, l.stores = nil, l.spans[:0], l.stores[:0]
	return err == nil
}

// addLast is addLate for the end of an RDMA WRITE: the last aligned 8 bytes are stored after all others, as in
// mem.writeLast.
func (t *turn) addLast(m mem, p []byte) {
	end := segment{m: m.mr.batch, at: m.mr.segs[0].at + m.off, n: uint64(len(p))}
	last, ok := end.lastWord()
	if !ok {
		t.addLate(m, p, access)
		return
	}
	t.addLate(m, p[:last], access)
	t.addLate(m.advance(last+8), p[last+8:], access)
	t.addLate(m.advance(last), p[last:last+8], access)
}
