package rvt

import (
	"slices"

	"ciddk/ci"
)

// holds lists the regions that one turn uses. Each region is entered once, so that a batch of requests on one region
// costs two atomic operations in all.
type holds struct {
	n    int
	g    [8]*grant
	more []*grant // beyond; its storage is kept for the next run

	lender Lender // of memory that the turn refers to; nil: none
	loan   uint32
}

// hold keeps g in use until release. It reports false if g has been withdrawn.
func (h *holds) hold(g *grant) bool {
	for i := h.n - 1; i >= 0; i-- {
		if h.g[i] == g {
			return true
		}
	}
	if slices.Contains(h.more, g) {
		return true
	}
	if !g.enter() {
		return false
	}
	if h.n < len(h.g) {
		h.g[h.n] = g
		h.n++
	} else {
		h.more = append(h.more, g)
	}
	return true
}

// release ends the use of all regions.
func (h *holds) release() {
	h.repay()
	for i, g := range h.g[:h.n] {
		h.g[i] = nil
		g.leave()
	}
	h.n = 0
	for i, g := range h.more {
		h.more[i] = nil
		g.leave()
	}
	h.more = h.more[:0]
}

// local checks an SGE (IBTA volume 1, 10.6.3 and 11.4.1.1) and holds its region. write is set if the HCA is about to
// write to it. An empty SGE succeeds with any key. Status: WCLocalProtErr.
func (h *holds) local(keys *keyTable, pd *PD, s ci.SGE, write bool) (mem, ci.WCStatus) {
	if s.Length == 0 {
		return mem{}, ci.WCSuccess
	}
	g := keys.lookup(s.LKey)
	if g == nil || g.pd != pd && g.pd != nil || g.under != nil || write && g.access&ci.LocalWrite == 0 {
		return mem{}, ci.WCLocalProtErr
	}
	off, ok := g.span(s.Addr, uint64(s.Length))
	if !ok || !h.hold(g) {
		return mem{}, ci.WCLocalProtErr
	}
	return mem{g.bytes, off}, ci.WCSuccess
}

// remote checks an access of the peer of e to n bytes at addr against the region or window of key and its rights (IBTA
// volume 1, 9.4.3 to 9.4.5 and 10.6.7), and holds the region. The caller checks the rights of the QP itself.
func (h *holds) remote(keys *keyTable, e *endpoint, key ci.Key, addr, n uint64, need ci.Access) (mem, bool) {
	g := keys.lookup(key)
	if g == nil || g.pd != e.pd || !g.hasRights(need) || g.qp != nil && g.qp != e {
		return mem{}, false
	}
	off, ok := g.span(addr, n)
	if !ok || !h.hold(g) || g.under != nil && !h.hold(g.under) {
		return mem{}, false
	}
	return mem{g.bytes, off}, true
}

// borrow borrows from a lender until release. It reports false if the turn has borrowed from another one.
func (h *holds) borrow(l Lender) bool {
	if l == nil || h.lender != nil {
		return l != nil && h.lender == l
	}
	h.lender, h.loan = l, l.Borrow()
	return true
}

// repay returns what has been borrowed.
func (h *holds) repay() {
	if h.lender != nil {
		h.lender.Return(h.loan)
		h.lender = nil
	}
}

// lentViews is mem.slices for memory that can be borrowed, with h as the borrower.
func (m mem) lentViews(h *holds, dst [][]byte, n uint64, write bool) ([][]byte, bool) {
	y := m.mr
	if !y.has(m.off, n) {
		return dst, false
	}
	l := y.lent.Lender()
	if !h.borrow(l) {
		return dst, false
	}
	views, ok := y.lent.Views(l, dst, y.segs[0].at+m.off, n, write)
	if !ok {
		return dst, false
	}
	return views, true
}
