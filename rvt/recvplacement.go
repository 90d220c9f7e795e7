package rvt

import (
	"ciddk/ci"
	"ciddk/wire"
)

// The operations of IBTA volume 1, release 1.6, annex A19: ATOMIC WRITE, and FLUSH, with its two placement types.

// flushRights returns the rights that a FLUSH needs. It reports false for a type or selectivity that is not defined,
// and for a FLUSH of no type.
func flushRights(p *Packet) (need ci.Access, ok bool) {
	if p.FlushTypes&wire.FlushGlobal != 0 {
		need |= ci.FlushGlobal
	}
	if p.FlushTypes&wire.FlushPersistent != 0 {
		need |= ci.FlushPersistent
	}
	known := p.FlushTypes&^(wire.FlushGlobal|wire.FlushPersistent) == 0 && p.FlushSel <= wire.FlushRegion
	return need, known && need != 0
}

// acceptAtomicWrite executes an ATOMIC WRITE and queues its answer, which is kept for duplicates.
func (r *responder) acceptAtomicWrite(t *turn, p *Packet) outcome {
	switch {
	case !r.dev.attr.Caps.Has(ci.CapAtomicWrite), r.attr.Access&ci.RemoteWrite == 0:
		return unsupported
	case r.in, r.resources() <= r.fresh(), p.VA%8 != 0, p.DMALen != ci.AtomicWriteSize, p.Len != p.DMALen:
		return invalid
	}
	m, ok := t.holds.remote(&r.dev.keys, r.endpoint, p.RKey, p.VA, ci.AtomicWriteSize, ci.RemoteWrite)
	if !ok {
		return access
	}
	var word [ci.AtomicWriteSize]byte
	n := 0
	for _, b := range p.Payload {
		n += copy(word[n:], b)
	}
	if v := outcomeOf(m.atomicWrite(&word)); v != placed {
		return v
	}
	r.answerEmpty(p)
	return placed
}

// acceptFlush executes a FLUSH and queues its answer. The requests before it have been executed, and processors of this
// machine see what they have written, so that nothing is left to do for global visibility.
func (r *responder) acceptFlush(t *turn, p *Packet) outcome {
	need, ok := flushRights(p)
	switch {
	case !r.dev.attr.Caps.Has(ci.CapFlush):
		return unsupported
	case r.in, !ok, r.resources() <= r.fresh():
		return invalid
	case r.attr.Access&need != need:
		return unsupported
	}
	addr, n := p.VA, uint64(p.DMALen)
	if p.FlushSel == wire.FlushRegion {
		g := r.dev.keys.lookup(p.RKey)
		if g == nil {
			return access
		}
		addr, n = g.base, g.length
	}
	m, ok := t.holds.remote(&r.dev.keys, r.endpoint, p.RKey, addr, n, need)
	if !ok || need&ci.FlushPersistent != 0 && m.persist(n) != nil {
		return access
	}
	r.answerEmpty(p)
	return placed
}

// answerEmpty moves the expected PSN over a request and queues the answer of a READ of no bytes.
func (r *responder) answerEmpty(p *Packet) {
	r.msn = (r.msn + 1) & psnMask
	r.remember(response{op: p.Op, psn: r.psn, first: r.psn, n: 1, npkts: 1, msn: r.msn})
	r.psn = psnAdd(r.psn, 1)
}
