package rvt

import (
	"ciddk/ci"
)

// sendEntry is a request in the window.
type sendEntry struct {
	w       Work
	first   ci.PSN
	npkts   uint32
	got     uint32 // READ: packets of the response that have come
	chunk   uint32 // READ: packets of each request but the last
	started bool   // has PSNs
	applied bool   // an invalidation that waits for accesses under way
	done    bool   // answered (READ, atomic) or executed (local operations)
}

func (r *requester) start(psn ci.PSN) {
	r.psn, r.una = psn, psn
	r.max, r.newPSN = psn, psn
}

func (r *requester) at(i uint32) *sendEntry { return &r.win[i&uint32(len(r.win)-1)] }

// decode takes one more request into the window. It reports false if there is none, or no room.
func (r *requester) decode() bool {
	if r.tail-r.head == uint32(len(r.win)) && !r.growWindow() {
		return false
	}
	e := r.at(r.tail)
	if !r.sq.Next(&e.w) {
		return false
	}
	if r.states != nil && e.w.Bad == ci.WCSuccess {
		e.w.Bad = r.checkShared(&e.w)
	}
	e.first, e.npkts = 0, 0
	e.got, e.chunk = 0, 0
	e.started, e.applied, e.done = false, false, false
	var n uint64
	if e.w.IsInl {
		n = uint64(len(e.w.Inline))
	} else {
		for i := range e.w.SGL {
			n += uint64(e.w.SGL[i].Length)
		}
	}
	e.w.Length = n
	r.tail++
	return true
}

// growWindow doubles the window, up to the depth of the queue, so that QPs with few outstanding requests stay small.
func (r *requester) growWindow() bool {
	n := len(r.win)
	if n >= r.sq.Depth() && n > 0 {
		return false
	}
	size := max(2*n, minWindow)
	win := make([]sendEntry, size)
	width := r.caps.SendSGE
	sge := make([]ci.SGE, size*width)
	for i := range win {
		win[i].w.SGL = sge[i*width : i*width : (i+1)*width]
	}
	for i := r.head; i != r.tail; i++ {
		old := r.at(i)
		e := &win[i&uint32(size-1)]
		sgl := append(e.w.SGL, old.w.SGL...)
		*e = *old
		e.w.SGL = sgl
	}
	r.win = win
	return true
}

// openWindow sets the window of bytes to the port's.
func (r *requester) openWindow() {
	r.window = int64(r.port.hints.Window)
	if r.window == 0 {
		r.window = 1 << 62
	}
}

// packetWindow returns the most PSNs that may be outstanding.
func (r *requester) packetWindow() uint32 {
	h := &r.port.hints
	switch {
	case h.Window == 0:
		return psnWindow
	case h.Packets == 0:
		return packetWindow
	}
	return uint32(min(h.Packets, psnWindow))
}

// canSend reports whether n more PSNs may be outstanding.
func (r *requester) canSend(n uint32) bool {
	out := uint32(psnDiff(r.psn, r.una))
	if limit := r.packetWindow(); out+n > limit {
		return limit < psnWindow && out == 0
	}
	return true
}

// isHalfUsed reports whether half of the window is outstanding. On a lossless link that is half of the PSNs.
func (r *requester) isHalfUsed() bool {
	most := r.packetWindow()
	if r.port.hints.Lossless {
		most = psnWindow
	}
	return r.bytes >= r.window/2 || uint32(psnDiff(r.psn, r.una)) >= most/2
}

// advance moves the cursor over n packets that have been sent.
func (r *requester) advance(n uint32, bytes int64) {
	r.psn = psnAdd(r.psn, n)
	r.off += n
	r.bytes += bytes
	if psnDiff(r.psn, r.max) > 0 {
		r.max = r.psn
	}
}

// rewind moves the cursor back to a PSN, from which on everything is sent again (go-back-N). The timer stops and starts
// again with the first packet, so that a loss that both a NAK and the timer report costs one retry.
func (r *requester) rewind(psn ci.PSN) {
	r.retryAt, r.lateness = 0, lateness{}
	for i := r.head; i != r.tail; i++ {
		e := r.at(i) // without packets if it has not started
		if d := psnDiff(psn, e.first); d >= 0 && d < int32(e.npkts) {
			r.next, r.off, r.psn = i, uint32(d), psn
			r.reads, r.bytes = 0, 0
			return
		}
	}
}

// skipTo moves the cursor forward to psn.
func (r *requester) skipTo(psn ci.PSN) {
	for ; r.next != r.tail; r.next++ {
		e := r.at(r.next)
		if !e.started {
			break
		}
		// psn is not before e. With two long messages together it may be 2^23 behind.
		if d := uint32(psn-e.first) & psnMask; d < e.npkts {
			r.off, r.psn = d, psn
			return
		}
	}
	r.off, r.psn = 0, psn
}

// slowDown halves the window of bytes on a link without flow control. speedUp restores it by one packet for each
// progress.
func (r *requester) slowDown() {
	if w := int64(r.port.hints.Window); w != 0 {
		r.window = max(r.window/2, min(w, 4*int64(r.mtu)))
	}
}

func (r *requester) speedUp() {
	if w := int64(r.port.hints.Window); w != 0 && r.window < w {
		r.window = min(r.window+int64(r.mtu), w)
	}
}

// span returns the bytes that packets [a, b) of a request carry, or ask for.
func (e *sendEntry) span(a, b, mtu uint32) int64 {
	return int64(min(uint64(b)*uint64(mtu), e.w.Length)) - int64(min(uint64(a)*uint64(mtu), e.w.Length))
}
