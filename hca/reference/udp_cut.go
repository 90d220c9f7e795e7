package reference

import (
	"ciddk/ci"
	"ciddk/rvt"
	"ciddk/wire"
)

// cutter walks over the wire packets of a batch of trains: it does what segmentation offload does. A train that cannot be cut (a bug
// of the engine, not a peer's doing) is passed over and counted in bad.
type cutter struct {
	cutPos
	pkts []rvt.Packet
	bad  int

	// The packet under the cutter, after next has returned true.
	rt   *udpRoute
	w    wire.Packet // headers; the BTH is this packet's, the rest the train's
	n    uint32      // bytes of payload
	size int         // bytes on the wire from the BTH on
}

// cutPos is a place in a batch: a packet of a train, and where its payload begins.
type cutPos struct {
	p        int    // train
	k        uint32 // packet in it
	seg, off int    // piece of the train's payload, byte in it
}

// next sets the cutter on the next packet to send. The caller moves past it with copyPayload, or piece and advance.
func (c *cutter) next() bool {
	for c.p < len(c.pkts) {
		p := &c.pkts[c.p]
		if c.k == 0 || c.rt == nil {
			rt, ok := p.Route.(*udpRoute)
			if !ok || !cuttable(p) {
				c.bad += int(max(p.N, 1))
				c.skip()
				continue
			}
			c.rt = rt.of(p)
			putTrain(&c.w, p)
		}
		last := c.k+1 == p.N
		if !putBTH(&c.w.BTH, p, c.k, last) {
			c.bad += int(p.N - c.k)
			c.skip()
			continue
		}
		c.n = p.MTU
		if last {
			c.n = p.Len - c.k*p.MTU
		}
		c.w.BTH.Pad = wire.PadLen(int(c.n))
		c.size = wire.PacketLen(c.w.BTH.Opcode, int(c.n))
		return true
	}
	return false
}

// skip goes to the next train.
func (c *cutter) skip() { c.cutPos, c.rt = cutPos{p: c.p + 1}, nil }

// piece gives the next run of payload bytes, at most left of them and at least one; left counts down from c.n, then advance.
func (c *cutter) piece(left int) []byte {
	p := &c.pkts[c.p]
	for {
		b := p.Payload[c.seg][c.off:]
		if len(b) > left {
			c.off += left
			return b[:left]
		}
		c.seg, c.off = c.seg+1, 0
		if len(b) > 0 {
			return b
		}
	}
}

// copyPayload copies the payload of the packet under the cutter to dst, which has room, and goes on to the next packet.
func (c *cutter) copyPayload(dst []byte) {
	p := &c.pkts[c.p]
	for left := int(c.n); left > 0; {
		k := copy(dst[:left], p.Payload[c.seg][c.off:])
		dst, left = dst[k:], left-k
		if c.off += k; c.off == len(p.Payload[c.seg]) {
			c.seg, c.off = c.seg+1, 0
		}
	}
	c.advance()
}

// advance goes on to the next packet.
func (c *cutter) advance() {
	if c.k++; c.k == c.pkts[c.p].N {
		c.skip()
	}
}

// appendPacket appends the packet under the cutter in one piece, and goes on to the next.
func (c *cutter) appendPacket(dst []byte, id uint16) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, c.size)...)
	b := dst[at:]
	h := c.w.PutHeaders(b)
	rt, n := c.rt, int(c.n)
	c.copyPayload(b[h:])
	clear(b[h+n:])
	end := len(b) - wire.ICRCLen
	rt.icrc(len(b), id).Transport(b[:end]).Put(b[end:])
	return dst
}

// cuttable checks what the engine promises of a train.
func cuttable(p *rvt.Packet) bool {
	if p.N == 0 {
		return false
	}
	if p.N > 1 {
		head := uint64(p.N-1) * uint64(p.MTU)
		if p.MTU%4 != 0 || head >= uint64(p.Len) || uint64(p.Len)-head > uint64(p.MTU) {
			return false
		}
	}
	have := 0
	for _, b := range p.Payload {
		have += len(b)
	}
	return have >= int(p.Len)
}

// putTrain sets the headers that all packets of a train share.
func putTrain(w *wire.Packet, p *rvt.Packet) {
	w.BTH = wire.BTH{MigReq: p.MigReq, PKey: uint16(p.PKey), DestQP: uint32(p.DestQP)}
	switch p.Op {
	case wire.OpSend:
		w.DETH = wire.DETH{QKey: uint32(p.QKey), SrcQP: uint32(p.SrcQP)}
		w.IETH = wire.IETH{RKey: uint32(p.Inv)}
	case wire.OpWrite, wire.OpReadRequest:
		w.RETH = wire.RETH{VA: p.VA, RKey: uint32(p.RKey), DMALen: p.DMALen}
	case wire.OpCompareSwap, wire.OpFetchAdd:
		w.AtomicETH = wire.AtomicETH{VA: p.VA, RKey: uint32(p.RKey), SwapAdd: p.Swap, Compare: p.Compare}
	case wire.OpReadResponse, wire.OpAcknowledge:
		w.AETH = wire.AETH{Syndrome: p.Syndrome, MSN: p.MSN}
	case wire.OpAtomicAcknowledge:
		w.AETH = wire.AETH{Syndrome: p.Syndrome, MSN: p.MSN}
		w.AtomicAckETH = wire.AtomicAckETH{Orig: p.Swap}
	}
	w.ImmDt.Imm = p.Imm
}

// putBTH sets what differs within a train; false for what no opcode says.
func putBTH(h *wire.BTH, p *rvt.Packet, k uint32, last bool) bool {
	start, end := k == 0 && p.Start, last && p.End
	switch p.Op {
	case wire.OpSend, wire.OpWrite, wire.OpReadResponse:
	default:
		start, end = true, true
	}
	op, ok := wire.Make(p.Service, p.Op, start, end, end && p.HasImm, end && p.HasInv)
	h.Opcode = op
	h.SE, h.AckReq = last && p.SE, last && p.Ack
	h.PSN = wire.PSNAdd(uint32(p.PSN), int(k))
	return ok
}

// takeHeaders is the inverse of putTrain and putBTH for a single packet.
func takeHeaders(p *rvt.Packet, w *wire.Packet) {
	op := w.BTH.Opcode
	p.Service, p.Op = op.Service(), op.Op()
	p.Start, p.End = op.Start(), op.End()
	p.HasImm, p.HasInv = op.HasImm(), op.HasIETH()
	p.SE, p.Ack, p.MigReq = w.BTH.SE, w.BTH.AckReq, w.BTH.MigReq
	p.PKey, p.DestQP, p.PSN = ci.PKey(w.BTH.PKey), ci.QPN(w.BTH.DestQP), ci.PSN(w.BTH.PSN)
	p.N, p.Len = 1, uint32(len(w.Payload))
	p.MTU = p.Len
	p.SrcQP, p.QKey = ci.QPN(w.DETH.SrcQP), ci.QKey(w.DETH.QKey)
	switch p.Op {
	case wire.OpWrite, wire.OpReadRequest:
		p.VA, p.RKey, p.DMALen = w.RETH.VA, ci.Key(w.RETH.RKey), w.RETH.DMALen
	case wire.OpCompareSwap, wire.OpFetchAdd:
		p.VA, p.RKey = w.AtomicETH.VA, ci.Key(w.AtomicETH.RKey)
		p.Swap, p.Compare = w.AtomicETH.SwapAdd, w.AtomicETH.Compare
	case wire.OpReadResponse, wire.OpAcknowledge:
		p.Syndrome, p.MSN = w.AETH.Syndrome, w.AETH.MSN
	case wire.OpAtomicAcknowledge:
		p.Syndrome, p.MSN, p.Swap = w.AETH.Syndrome, w.AETH.MSN, w.AtomicAckETH.Orig
	}
	p.Imm, p.Inv = w.ImmDt.Imm, ci.Key(w.IETH.RKey)
}
