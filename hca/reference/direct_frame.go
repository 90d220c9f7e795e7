package reference

import (
	"bytes"

	"ciddk/ci"
	"ciddk/rvt"
	"ciddk/wire"
)

// The link layer of a direct port in bytes: how packets leave to a LinkEnd, and what is asked of those that come from one. HCAs of one
// process need none of it among themselves.

// directFrames gives the packets of a train as they are on an InfiniBand link, LRH to VCRC. The train comes from a directPort, which has
// set its addresses; what is no train gives none.
func directFrames(p *rvt.Packet) [][]byte {
	r, ok := p.Route.(*directRoute)
	if !ok || !cuttable(p) {
		return nil
	}
	w := wire.LinkPacket{LRH: wire.LRH{LNH: wire.LNHLocal, SL: uint8(p.SL), SLID: uint16(p.Src.LID), DLID: uint16(p.Dst.LID)}}
	if p.DestQP == 0 {
		w.LRH.VL = managementVL
	}
	if r.global {
		w.LRH.LNH, w.GRH = wire.LNHGlobal, r.grh
	}
	putTrain(&w.Packet, p)
	payload := bytes.Join(p.Payload, nil)[:p.Len]
	var out [][]byte
	for k := range p.N {
		last := k+1 == p.N
		if !putBTH(&w.Packet.BTH, p, k, last) {
			return out
		}
		w.Packet.Payload = payload
		if !last {
			w.Packet.Payload = payload[:p.MTU]
		}
		payload = payload[len(w.Packet.Payload):]
		out = append(out, wire.AppendLinkPacket(nil, &w))
	}
	return out
}

// receive takes in one packet in bytes, LRH to VCRC: the checks of the data link layer (IBTA volume 1, 7.3, 7.8), of the network layer where there
// is a GRH (8.3), and the ICRC. What fails is counted and goes no further. Nothing of b is kept: the engine
// has let go of a packet when its delivery returns.
func (p *directPort) receive(b []byte) {
	var w wire.LinkPacket
	err := wire.ParseLinkPacket(b, &w)
	switch {
	case err != nil:
		p.count(rvt.DropMalformed, 1)
		return
	case wire.VCRC(0).Update(b[:len(b)-wire.VCRCLen]) != w.VCRC:
		p.count(rvt.DropMalformed, 1)
		return
	case wire.CheckLinkCRC(b, &w) != nil:
		p.count(rvt.DropICRC, 1)
		return
	case w.Packet.BTH.Opcode.Service() == wire.Congestion: // of RoCE alone
		p.count(rvt.DropService, 1)
		return
	case !p.laneFits(&w) || !p.isFor(&w):
		p.count(rvt.DropNotForUs, 1)
		return
	}
	pkt := [1]rvt.Packet{{Src: rvt.Addr{LID: ci.LID(w.LRH.SLID)}, Dst: rvt.Addr{LID: ci.LID(w.LRH.DLID)}, SL: ci.SL(w.LRH.SL)}}
	x := &pkt[0]
	takeHeaders(x, &w.Packet)
	if len(w.Packet.Payload) > 0 {
		x.Payload = [][]byte{w.Packet.Payload}
	}
	if x.Dst.LID < firstMulticastLID {
		_, lmc := p.lids()
		x.PathBits = uint8(x.Dst.LID) & (1<<lmc - 1)
	}
	if w.Global() {
		x.Dst.GID = w.GRH.DGID
		if w.Packet.BTH.Opcode.HasDETH() {
			x.GRH = b[wire.LRHLen : wire.LRHLen+wire.GRHLen]
		}
	}
	p.deliver(pkt[:])
}

// laneFits: the port has one data lane, VL 0; VL 15 carries subnet management and nothing else (IBTA volume 1, 7.6.4).
func (p *directPort) laneFits(w *wire.LinkPacket) bool {
	if w.Packet.BTH.DestQP == 0 {
		return w.LRH.VL == managementVL
	}
	return w.LRH.VL == 0
}

// isFor tells whether a packet's addresses are the port's: one of its LIDs, and with a GRH one of its GIDs. Groups are the engine's matter.
func (p *directPort) isFor(w *wire.LinkPacket) bool {
	dlid := ci.LID(w.LRH.DLID)
	if dlid >= firstMulticastLID {
		return dlid != permissiveLID && w.Global() && w.GRH.DGID[0] == 0xff
	}
	if base, lmc := p.lids(); dlid&^(1<<lmc-1) != base {
		return false
	}
	if !w.Global() {
		return true
	}
	for _, e := range p.Attr().GIDs {
		if e.GID != (ci.GID{}) && e.GID == ci.GID(w.GRH.DGID) {
			return true
		}
	}
	return false
}
