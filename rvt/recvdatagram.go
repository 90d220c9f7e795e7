package rvt

import (
	"ciddk/ci"
	"ciddk/wire"
)

// receiveDatagram stores a datagram that fits into the next receive buffer. Any other is dropped and counted.
func (r *responder) receiveDatagram(t *turn, p *Packet) {
	drop := func(c Counter) { r.dev.count.add(c, 1) }
	if p.Op != wire.OpSend || !p.Start || !p.End || p.N != 1 {
		drop(DropService)
		return
	}
	pkeyIx, ok := r.matchPKey(p.PKey)
	if !ok {
		drop(DropPKey)
		r.port.badPKey(p)
		return
	}
	want := r.attr.QKey
	if r.typ == ci.QP1 {
		want = qp1QKey
	}
	if r.typ != ci.QP0 && p.QKey != want {
		drop(DropQKey)
		r.port.badQKey(p)
		return
	}
	if p.Len > r.mtu {
		drop(DropLength)
		return
	}
	if v := r.takeRecv(); v != placed {
		if v == notReady {
			drop(DropNoRecv)
		} else {
			r.localRecvError(t, v)
		}
		return
	}
	var room uint64
	for i := range r.rw.SGL {
		room += uint64(r.rw.SGL[i].Length)
	}
	if grhSize+uint64(p.Len) > room {
		drop(DropLength) // the buffer waits for a datagram that fits
		return
	}
	v := placed
	if p.GRH != nil {
		t.grh[0] = p.GRH
		v = r.scatterLate(t, 0, t.grh[:], uint32(len(p.GRH)), false)
		t.grh[0] = nil
	}
	if v == placed {
		v = r.scatterLate(t, grhSize, p.Payload, p.Len, false)
	}
	if v == earlier {
		r.unwind(t)
		return
	}
	if v != placed {
		r.localRecvError(t, v)
		return
	}
	wc := t.complete(r.recvCQ, p.SE)
	wc.ID, wc.Length = r.rw.ID, grhSize+p.Len
	wc.Op, wc.SrcQP = ci.WCRecv, p.SrcQP
	wc.SLID, wc.SL = p.Src.LID, p.SL
	wc.PathBits, wc.PKeyIndex = p.PathBits, pkeyIx
	if p.GRH != nil {
		wc.Flags |= ci.WCGRH
		if r.port.attr.Load().Link == ci.LinkEthernet {
			wc.SL = headerType(p.GRH)
		}
	}
	if p.HasImm {
		wc.Flags |= ci.WCImmediate
		wc.Imm = p.Imm
	}
	if f := r.dev.cfg.Ops.Received; f != nil {
		f(wc, p.Payload)
	}
	r.have = false
}

// headerType returns what the completion of a datagram has as its service level on an Ethernet port, whose packets have
// none: the type of the packet's IP header, which annex A17, 17.4.5.1 demands, in the encoding of ConnectX adapters.
// UCX reads it there, to find the destination in the first bytes of the buffer.
func headerType(grh []byte) ci.SL {
	const ipv6, ipv4 = 1, 2
	if grh[0]>>4 == 6 {
		return ipv6
	}
	return ipv4
}

// matchPKey reports whether the P_Key of a packet is that of the QP, and returns its index for QP1. QP0 accepts any
// P_Key, QP1 any in the table of the port.
func (r *responder) matchPKey(k ci.PKey) (uint16, bool) {
	switch r.typ {
	case ci.QP0:
		return 0, true
	case ci.QP1:
		for i, t := range r.port.attr.Load().PKeys {
			if t&0x7fff != 0 && pkeyMatch(k, t) {
				return uint16(i), true
			}
		}
		return 0, false
	}
	return 0, pkeyMatch(k, r.pkey)
}
