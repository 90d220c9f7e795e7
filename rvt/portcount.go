package rvt

import (
	"sync/atomic"

	"ciddk/ci"
	"ciddk/wire"
)

// grhSize is the length of a GRH, in bytes.
const grhSize = 40

// PortCount holds the traffic of a port since the HCA was created, as a performance management agent reports it (IBTA
// volume 1, 16.1.3.5). Bytes are those of whole transport packets, from the BTH to the ICRC, with the GRH where there
// is one. Headers before that belong to the link and have one size for all packets of a port.
type PortCount struct {
	XmitPkts, RcvPkts   uint64
	XmitBytes, RcvBytes uint64
	RcvErrors           uint64 // packets that were malformed, or whose ICRC was wrong
	XmitDiscards        uint64 // packets that the link did not take
}

// portCount holds the counters of a PortCount.
type portCount struct {
	xmitPkts, rcvPkts, xmitBytes, rcvBytes, rcvErrors, xmitDiscards atomic.Uint64
}

// sent counts a batch that is about to be sent.
func (p *port) sent(pkts []Packet) {
	bytes, packets := 0, 0
	ib := p.attr.Load().Link == ci.LinkInfiniBand
	var rt Route // packets of a batch have mostly one
	grh := 0
	for i := range pkts {
		k := &pkts[i]
		bytes += k.wireBytes()
		packets += int(k.N)
		if ib && k.Route != rt {
			if rt, grh = k.Route, 0; localGID(rt) != (ci.GID{}) {
				grh = grhSize
			}
		}
		bytes += int(k.N) * grh
	}
	p.traffic.xmitPkts.Add(uint64(packets))
	p.traffic.xmitBytes.Add(uint64(bytes))
}

// received counts a batch that has arrived.
func (p *port) received(pkts []Packet) {
	bytes, packets := 0, 0
	ib := p.attr.Load().Link == ci.LinkInfiniBand
	for i := range pkts {
		k := &pkts[i]
		bytes += k.wireBytes()
		packets += int(k.N)
		if ib && k.GRH != nil {
			bytes += int(k.N) * grhSize
		}
	}
	p.traffic.rcvPkts.Add(uint64(packets))
	p.traffic.rcvBytes.Add(uint64(bytes))
}

// wireBytes returns the length of a packet, or of all packets of a train, from the BTH to the ICRC. It computes what
// wire.Opcode.HeaderLen returns, without the opcodes, of which a train has up to three.
func (p *Packet) wireBytes() int {
	const bth, icrc, deth, feth, reth, atomicETH, aeth, atomicAckETH, imm = 12, 4, 8, 4, 16, 28, 4, 8, 4
	n := int(p.N)*(bth+icrc) + int(p.Len) + int(-p.Len&3) // MTUs are multiples of 4: only the last packet is padded
	if p.Service == wire.UD {
		n += int(p.N) * deth
	}
	switch p.Op {
	case wire.OpWrite:
		if p.Start {
			n += reth
		}
	case wire.OpReadRequest, wire.OpAtomicWrite:
		n += reth
	case wire.OpFlush:
		n += feth + reth
	case wire.OpCompareSwap, wire.OpFetchAdd:
		n += atomicETH
	case wire.OpAcknowledge:
		n += aeth
	case wire.OpAtomicAcknowledge:
		n += aeth + atomicAckETH
	case wire.OpReadResponse:
		if p.Start {
			n += aeth
		}
		if p.End && (p.N > 1 || !p.Start) {
			n += aeth
		}
	}
	if p.HasImm || p.HasInv {
		n += imm
	}
	return n
}
