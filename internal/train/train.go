package train

import (
	"ciddk/ci"
	"ciddk/rvt"
	"ciddk/wire"
)

// Count returns the number of packets that a wire has for pkts.
func Count(pkts []rvt.Packet) int {
	n := 0
	for i := range pkts {
		n += int(pkts[i].N)
	}
	return n
}

// IsWhole reports whether p is what the engine promises of a train: all packets but the last are of MTU bytes, and the
// payload is there.
func IsWhole(p *rvt.Packet) bool {
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

// PutHeaders sets the headers of w that all packets of p share. PutBTH sets the others.
func PutHeaders(w *wire.Packet, p *rvt.Packet) {
	w.BTH = wire.BTH{MigReq: p.MigReq, PKey: uint16(p.PKey), DestQP: uint32(p.DestQP)}
	switch p.Op {
	case wire.OpSend:
		w.DETH = wire.DETH{QKey: uint32(p.QKey), SrcQP: uint32(p.SrcQP)}
		w.IETH = wire.IETH{RKey: uint32(p.Inv)}
	case wire.OpFlush:
		w.FETH = wire.FETH{Types: p.FlushTypes, Sel: p.FlushSel}
		w.RETH = wire.RETH{VA: p.VA, RKey: uint32(p.RKey), DMALen: p.DMALen}
	case wire.OpWrite, wire.OpReadRequest, wire.OpAtomicWrite:
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

// PutBTH sets the fields of h that differ within a train, for packet k of p. It returns false if no opcode exists for
// that packet.
func PutBTH(h *wire.BTH, p *rvt.Packet, k uint32) bool {
	last := k+1 == p.N
	start, end := k == 0 && p.Start, last && p.End
	switch p.Op {
	case wire.OpSend, wire.OpWrite, wire.OpReadResponse:
	default:
		start, end = true, true
	}
	op, ok := wire.Make(p.Service, p.Op, start, end, end && p.HasImm, end && p.HasInv)
	h.Opcode = op
	h.SE, h.AckReq = last && p.SE, last && p.Ack
	h.BECN = p.Op == wire.OpCNP
	h.PSN = wire.PSNAdd(uint32(p.PSN), int(k))
	return ok
}

// TakeHeaders sets the fields of p that come from the headers of w, a single packet. It does not set Payload.
func TakeHeaders(p *rvt.Packet, w *wire.Packet) {
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
	case wire.OpWrite, wire.OpReadRequest, wire.OpAtomicWrite, wire.OpFlush:
		p.FlushTypes, p.FlushSel = w.FETH.Types, w.FETH.Sel
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

// Packet returns packet k of a train. It has the same payload bytes in a gather list of its own.
func Packet(p *rvt.Packet, k uint32) rvt.Packet {
	c := *p
	last := k+1 == p.N
	c.N, c.PSN = 1, ci.PSN(wire.PSNAdd(uint32(p.PSN), int(k)))
	c.Start, c.Len = p.Start && k == 0, p.MTU
	if last {
		c.Len = p.Len - k*p.MTU
	} else {
		c.End, c.HasImm, c.HasInv = false, false, false
		c.SE, c.Ack = false, false
	}
	c.Payload = nil
	skip, left := k*p.MTU, c.Len
	for _, b := range p.Payload {
		if n := uint32(len(b)); skip >= n {
			skip -= n
			continue
		}
		b = b[skip:]
		skip = 0
		if uint32(len(b)) > left {
			b = b[:left]
		}
		if len(b) > 0 {
			c.Payload = append(c.Payload, b)
		}
		if left -= uint32(len(b)); left == 0 {
			break
		}
	}
	return c
}

// Encode fills in w with a single packet, payload copied. It returns false if the packet has no encoding.
func Encode(w *wire.Packet, p *rvt.Packet) bool {
	PutHeaders(w, p)
	if p.N != 1 || !PutBTH(&w.BTH, p, 0) {
		return false
	}
	w.Payload = make([]byte, 0, p.Len)
	for _, b := range p.Payload {
		w.Payload = append(w.Payload, b...)
	}
	return uint32(len(w.Payload)) == p.Len
}
