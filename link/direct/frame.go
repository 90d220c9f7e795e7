package direct

import (
	"bytes"
	"encoding/binary"

	"ciddk/ci"
	"ciddk/internal/train"
	"ciddk/rvt"
	"ciddk/wire"
)

// The link layer of a direct port in bytes, for ends and captures. The HCAs of one process do not need it among
// themselves.

// managementVL carries subnet management datagrams and nothing else (IBTA volume 1, 7.6.4).
const managementVL = 15

// encodeTrain returns the packets of a train as they are on an InfiniBand link, LRH to VCRC. A Port has set the
// addresses of the train. It returns nil if p is no train of a Port.
func encodeTrain(p *rvt.Packet) [][]byte {
	r, ok := p.Route.(*route)
	if !ok || !train.IsWhole(p) {
		return nil
	}
	w := wire.LinkPacket{LRH: wire.LRH{LNH: wire.LNHLocal, SL: uint8(p.SL), SLID: uint16(p.Src.LID),
		DLID: uint16(p.Dst.LID)}}
	if p.DestQP == 0 {
		w.LRH.VL = managementVL
	}
	if r.global {
		w.LRH.LNH, w.GRH = wire.LNHGlobal, r.grh
	}
	train.PutHeaders(&w.Packet, p)
	payload := bytes.Join(p.Payload, nil)[:p.Len]
	var out [][]byte
	for k := range p.N {
		if !train.PutBTH(&w.Packet.BTH, p, k) {
			return out
		}
		w.Packet.Payload = payload
		if k+1 < p.N {
			w.Packet.Payload = payload[:p.MTU]
		}
		payload = payload[len(w.Packet.Payload):]
		out = append(out, wire.AppendLinkPacket(nil, &w))
	}
	return out
}

// receive takes one packet in bytes, LRH to VCRC: the checks of the data link layer (IBTA volume 1, 7.3, 7.8), of the
// network layer where there is a GRH (8.3), and the ICRC. A packet that fails is counted and dropped. receive does not
// keep b.
func (p *Port) receive(b []byte) {
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
	case !isLaneRight(&w) || !p.isFor(&w):
		p.count(rvt.DropNotForUs, 1)
		return
	}
	pkt := [1]rvt.Packet{{Src: rvt.Addr{LID: ci.LID(w.LRH.SLID)}, Dst: rvt.Addr{LID: ci.LID(w.LRH.DLID)},
		SL: ci.SL(w.LRH.SL)}}
	x := &pkt[0]
	train.TakeHeaders(x, &w.Packet)
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

// isLaneRight reports whether a packet came on its lane: VL 0 for data, VL 15 for subnet management (IBTA volume 1,
// 7.6.4).
func isLaneRight(w *wire.LinkPacket) bool {
	if w.Packet.BTH.DestQP == 0 {
		return w.LRH.VL == managementVL
	}
	return w.LRH.VL == 0
}

// isFor reports whether a packet's addresses are the port's: one of its LIDs, and with a GRH one of its GIDs. The
// engine checks groups.
func (p *Port) isFor(w *wire.LinkPacket) bool {
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

// EncodeFrame returns a single packet, LRH to VCRC. It implements rvt.EncoderPort.
func (p *Port) EncodeFrame(d rvt.Direction, pkt *rvt.Packet) []byte {
	w := wire.LinkPacket{LRH: wire.LRH{LNH: wire.LNHLocal, SL: uint8(pkt.SL), SLID: uint16(pkt.Src.LID),
		DLID: uint16(pkt.Dst.LID)}}
	if !train.Encode(&w.Packet, pkt) {
		return nil
	}
	if pkt.DestQP == 0 {
		w.LRH.VL = managementVL
	}
	if d == rvt.Received {
		p.receivedGRH(&w, pkt)
		return wire.AppendLinkPacket(nil, &w)
	}
	r, ok := pkt.Route.(*route)
	if !ok {
		return nil
	}
	slid, _ := r.from.lids()
	w.LRH.SL, w.LRH.SLID, w.LRH.DLID = uint8(r.sl), uint16(slid)|uint16(r.bits), uint16(r.dlid)
	if r.global {
		w.LRH.LNH, w.GRH = wire.LNHGlobal, r.grh
	}
	return wire.AppendLinkPacket(nil, &w)
}

// receivedGRH sets the GRH of a received packet. A datagram comes with it. Of other packets the destination is known,
// and the sender's GID is the one at index 0 of the port with their source LID.
func (p *Port) receivedGRH(w *wire.LinkPacket, pkt *rvt.Packet) {
	if g := pkt.GRH; len(g) >= wire.GRHLen {
		first := binary.BigEndian.Uint32(g)
		w.LRH.LNH = wire.LNHGlobal
		w.GRH = wire.GRH{TrafficClass: uint8(first >> 20), FlowLabel: first & wire.MaskFlowLabel,
			NextHeader: wire.NextHeaderIBA, HopLimit: g[7],
			SGID: [16]byte(g[8:24]), DGID: [16]byte(g[24:40])}
		return
	}
	if pkt.Dst.GID == (rvt.Addr{}).GID {
		return
	}
	from := p.link.now().byLID[pkt.Src.LID]
	if from == nil {
		return
	}
	sgid, _ := from.gid(0)
	w.LRH.LNH, w.GRH = wire.LNHGlobal, wire.GRH{NextHeader: wire.NextHeaderIBA, SGID: sgid, DGID: pkt.Dst.GID}
}
