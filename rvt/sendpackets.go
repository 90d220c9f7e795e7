package rvt

import (
	"ciddk/ci"
	"ciddk/wire"
)

// sendSome sends the next train or request of e. It reports false if that must wait, or has failed.
func (r *requester) sendSome(t *turn, e *sendEntry) bool {
	switch e.w.Op {
	case ci.OpSend, ci.OpWrite:
		return r.sendTrain(t, e)
	case ci.OpRead:
		return r.sendRead(t, e)
	}
	if r.reads >= uint32(r.attr.InitDepth) || !r.canSend(1) {
		return false
	}
	var p *Packet
	if e.w.Op == ci.OpAtomicWrite {
		if p, _ = r.fill(t, e, 0, 1); p == nil {
			r.failAt(t, e, ci.WCLocalProtErr)
			return false
		}
	} else {
		p = t.packet()
	}
	switch e.w.Op {
	case ci.OpAtomicWrite:
		p.Op, p.DMALen = wire.OpAtomicWrite, p.Len
	case ci.OpFlush:
		p.Op = wire.OpFlush
		putFlush(p, &e.w.Flush)
	case ci.OpCompareSwap:
		p.Op = wire.OpCompareSwap
		p.Swap, p.Compare = e.w.Swap, e.w.Compare
	default:
		p.Op = wire.OpFetchAdd
		p.Swap = e.w.Compare
	}
	p.Start, p.End, p.Ack = true, true, true
	p.VA, p.RKey = e.w.Remote.Addr, e.w.Remote.RKey
	p.PSN = r.psn
	r.reads++
	t.left.spend(1, 8)
	r.advance(1, 0)
	return true
}

// sendTrain sends packets of a SEND or WRITE.
func (r *requester) sendTrain(t *turn, e *sendEntry) bool {
	mtu := r.mtu
	n := min(e.npkts-r.off, uint32(max(r.port.hints.MaxTrain, int(mtu)))/mtu)
	n = t.left.train(n, mtu)
	if r.service == wire.RC {
		out := uint32(psnDiff(r.psn, r.una))
		limit := r.packetWindow()
		if out >= limit {
			return false
		}
		n = min(n, limit-out)
		if room := r.window - r.bytes; room < int64(n)*int64(mtu) {
			if n = uint32(max(room, 0) / int64(mtu)); n == 0 {
				if r.bytes > 0 {
					return false
				}
				n = 1
			}
		}
	} else if n = r.pace(n); n == 0 {
		return false
	}
	start := uint64(r.off) * uint64(mtu)
	p, n := r.fill(t, e, start, n)
	if p == nil {
		r.failAt(t, e, ci.WCLocalProtErr)
		return false
	}
	end := r.off+n == e.npkts
	size := p.Len
	p.Op = wire.OpSend
	if e.w.Op == ci.OpWrite {
		p.Op = wire.OpWrite
	}
	p.Start, p.End = r.off == 0, end
	if p.Start && e.w.Op == ci.OpWrite {
		p.VA, p.RKey, p.DMALen = e.w.Remote.Addr, e.w.Remote.RKey, uint32(e.w.Length)
	}
	if end {
		r.endOfMessage(p, e)
	}
	p.PSN, p.N = r.psn, n
	r.advance(n, int64(size))
	t.left.spend(n, size)
	r.paced(n, size)
	if r.service == wire.RC && !end && r.isHalfUsed() {
		p.Ack = true // the window will close before the message ends
	}
	return true
}

// fill makes a packet with the data of up to n packets of e, from offset off. It sends a full batch first, shortens a
// train whose memory must be copied, and copies a packet of too many pieces. It returns nil if the data cannot be read.
func (r *requester) fill(t *turn, e *sendEntry, off uint64, n uint32) (*Packet, uint32) {
	for {
		size := uint32(min(e.w.Length-off, uint64(n)*uint64(r.mtu)))
		t.room(r.caps.SendSGE + 1)
		p := t.packet()
		first, copied := t.nsegs, t.nbuf
		if r.gather(t, e, off, size) {
			t.flat = false
			r.copies = r.copies || t.nbuf > copied
			p.Payload, p.Len = t.segs[first:t.nsegs], size
			return p, n
		}
		t.unpacket()
		t.nsegs, t.nbuf = first, copied
		switch {
		case t.npkts > 0:
			t.send()
		case n > 1:
			n = max(min(n/2, batchBuffer/r.mtu), 1)
		case !t.flat:
			t.flat = true // the memory may be in more pieces than a batch holds
		default:
			t.flat = false
			return nil, 0
		}
	}
}

// gather appends n bytes of the data of a request, from offset off, to the batch. It reports false if a key, a bound or
// a right is invalid, or the batch has no room.
func (r *requester) gather(t *turn, e *sendEntry, off uint64, n uint32) bool {
	if e.w.IsInl {
		if n > 0 {
			t.segs[t.nsegs] = e.w.Inline[off : off+uint64(n)]
			t.nsegs++
		}
		return true
	}
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
		if st != ci.WCSuccess || !t.view(m, g.Length) {
			return false
		}
		if n -= g.Length; n == 0 {
			break
		}
	}
	return n == 0
}

// endOfMessage sets the fields that only the last packet of a message has.
func (r *requester) endOfMessage(p *Packet, e *sendEntry) {
	p.SE = e.w.Flags&ci.SendSolicited != 0
	p.Ack = r.service == wire.RC
	if e.w.Flags&ci.SendImmediate != 0 {
		p.HasImm, p.Imm = true, e.w.Imm
	} else if e.w.Flags&ci.SendInvalidate != 0 && e.w.Op == ci.OpSend {
		p.HasInv, p.Inv = true, e.w.Inv
	}
}

// putFlush sets what a packet of a FLUSH has of it.
func putFlush(p *Packet, f *ci.Flush) {
	p.DMALen = f.Length
	if f.Types&ci.FlushGlobal != 0 {
		p.FlushTypes |= wire.FlushGlobal
	}
	if f.Types&ci.FlushPersistent != 0 {
		p.FlushTypes |= wire.FlushPersistent
	}
	if f.Region {
		p.FlushSel = wire.FlushRegion
	}
}

// readChunk returns how many packets a new READ asks for in one request.
func (r *requester) readChunk() uint32 {
	if w := r.port.hints.Window; w != 0 {
		return min(max(uint32(w)/4/r.mtu, 1), maxReadPackets)
	}
	return maxReadPackets
}

// sendRead sends a READ request for the rest of e, or of a chunk of it. A repeated request must lie inside one that the
// peer remembers (IBTA volume 1, 9.7.5.1.2), so chunks do not depend on the present width of the window.
func (r *requester) sendRead(t *turn, e *sendEntry) bool {
	n := min(e.npkts-r.off, e.chunk-r.off%e.chunk)
	if r.reads >= uint32(r.attr.InitDepth) {
		return false
	}
	if out := uint32(psnDiff(r.psn, r.una)); out+n > psnWindow {
		return false
	}
	if r.bytes > 0 && r.window-r.bytes < int64(n)*int64(r.mtu) {
		return false
	}
	start := uint64(r.off) * uint64(r.mtu)
	size := uint32(min(e.w.Length-start, uint64(n)*uint64(r.mtu)))
	p := t.packet()
	p.Op = wire.OpReadRequest
	p.Start, p.End, p.Ack = true, true, true
	p.VA, p.RKey, p.DMALen = e.w.Remote.Addr+start, e.w.Remote.RKey, size
	p.PSN = r.psn
	r.reads++
	t.left.spend(1, 0)
	r.advance(n, int64(size))
	return true
}

// addressDatagram sets everything but the payload of the packet of a datagram.
func (r *requester) addressDatagram(p *Packet, e *sendEntry, av *avState, key ci.PKey) {
	w := &e.w
	source, isQP1 := r.num, r.typ == ci.QP1 || w.FromQP1
	if isQP1 {
		source = 1
	}
	p.Op, p.Start, p.End = wire.OpSend, true, true
	p.Route, p.PKey = av.route, key
	p.DestQP, p.SrcQP = w.DestQP, source
	// A privileged Q_Key in the request stands for that of the QP (IBTA volume 1, 10.2.5).
	if p.QKey = w.QKey; w.QKey&(1<<31) != 0 {
		p.QKey = r.attr.QKey
	}
	if isQP1 {
		p.QKey = qp1QKey
	}
	p.SL, p.PathBits = av.attr.SL, av.attr.PathBits
	r.endOfMessage(p, e)
	p.PSN = r.newPSN
	r.newPSN = psnAdd(p.PSN, 1)
}
