package rvt

import (
	"ciddk/ci"
	"ciddk/wire"
)

// readAhead reads the data that the requests from i on will send next. If that fails, they are read one by one, and the
// failure belongs to its request.
func (r *requester) readAhead(t *turn, i uint32) {
	a := &t.ahead
	a.drop()
	t.makeBuffer()
	room := int64(len(t.buf) - t.nbuf)
	packets := min(len(t.pkts)-t.npkts, t.left.packets)
	if r.service == wire.RC {
		room = min(room, r.window-r.bytes)
		packets = min(packets, int(r.packetWindow())-int(psnDiff(r.psn, r.una)))
	}
	most := uint64(max(r.port.hints.MaxTrain/int(r.mtu), 1)) * uint64(r.mtu)
	var off uint64
	if e := r.at(i); e.started {
		off = uint64(r.off) * uint64(r.mtu)
	}
	for first := i; packets > 0 && len(t.segs)-t.nsegs-len(a.spans) > r.caps.SendSGE; packets-- {
		if i == r.tail && (r.current() != ci.QPRTS || !r.decode()) {
			break
		}
		e := r.at(i)
		n := min(e.w.Length-off, most)
		if !e.isAhead(i == first) || int64(n) > room || !r.addAhead(t, e, off, uint32(n)) {
			break
		}
		room -= int64(n)
		if off += n; off == e.w.Length {
			i, off = i+1, 0
		}
	}
	if r.copies = len(a.spans) > 0; !r.copies { // the next copy of a single request sets it again
		return
	}
	if done, err := a.copier.CopySpans(a.spans, false); err != nil {
		a.spans, a.from = a.spans[:done], a.from[:done]
	}
}

// isAhead reports whether the data of a request may be read before the requests before it have been sent.
func (e *sendEntry) isAhead(isFirst bool) bool {
	return (e.w.Op == ci.OpSend || e.w.Op == ci.OpWrite) && !e.w.IsInl && e.w.Bad == ci.WCSuccess &&
		e.w.Offload == nil && (isFirst || e.w.Flags&ci.SendFence == 0)
}

// addAhead adds n bytes of the data of a request, from offset off. It reports false if they cannot be read together
// with what has been added before.
func (r *requester) addAhead(t *turn, e *sendEntry, off uint64, n uint32) bool {
	a := &t.ahead
	for i := range e.w.SGL {
		g := e.w.SGL[i]
		if off >= uint64(g.Length) {
			off -= uint64(g.Length)
			continue
		}
		g.Addr += off
		g.Length = min(g.Length-uint32(off), n)
		off = 0
		m, st := t.holds.local(&r.dev.keys, r.pd, g, false)
		if st != ci.WCSuccess || m.mr.copier == nil || len(a.spans) > 0 && m.mr.copier != a.copier ||
			!m.mr.has(m.off, uint64(g.Length)) {
			return false
		}
		a.copier = m.mr.copier
		a.spans = append(a.spans, m.span(t.buf[t.nbuf:t.nbuf+int(g.Length)]))
		a.from = append(a.from, m)
		t.nbuf += int(g.Length)
		if n -= g.Length; n == 0 {
			break
		}
	}
	return true
}
