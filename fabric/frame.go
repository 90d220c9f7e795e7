package fabric

import (
	"encoding/binary"

	"ciddk/ci"
	"ciddk/internal/train"
	"ciddk/rvt"
	"ciddk/wire"
)

// managementLane carries subnet management datagrams and nothing else (IBTA volume 1, 7.6.4).
const managementLane = 15

// EncodeFrame returns a single packet, LRH to VCRC, on the lane that SLtoVL has for its SL. It implements
// rvt.EncoderPort.
func (c *CAPort) EncodeFrame(d rvt.Direction, pkt *rvt.Packet) []byte {
	w := wire.LinkPacket{LRH: wire.LRH{LNH: wire.LNHLocal, SL: uint8(pkt.SL), SLID: uint16(pkt.Src.LID),
		DLID: uint16(pkt.Dst.LID)}}
	if !train.Encode(&w.Packet, pkt) {
		return nil
	}
	if d == rvt.Received {
		receivedGRH(&w, pkt)
	} else {
		r, ok := pkt.Route.(*route)
		if !ok {
			return nil
		}
		w.LRH.SL, w.LRH.SLID, w.LRH.DLID = uint8(r.sl), uint16(r.slid()), uint16(r.dlid)
		if r.global {
			w.LRH.LNH, w.GRH = wire.LNHGlobal, r.grh
		}
	}
	w.LRH.VL = c.port.node.soft.VL(0, 0, w.LRH.SL)
	if pkt.DestQP == 0 {
		w.LRH.VL = managementLane
	}
	return wire.AppendLinkPacket(nil, &w)
}

// receivedGRH sets the GRH of a received packet, which comes with datagrams. Connected packets come without theirs.
func receivedGRH(w *wire.LinkPacket, pkt *rvt.Packet) {
	g := pkt.GRH
	if len(g) < wire.GRHLen {
		return
	}
	first := binary.BigEndian.Uint32(g)
	w.LRH.LNH = wire.LNHGlobal
	w.GRH = wire.GRH{TrafficClass: uint8(first >> 20), FlowLabel: first & wire.MaskFlowLabel,
		NextHeader: wire.NextHeaderIBA, HopLimit: g[7], SGID: ci.GID(g[8:24]), DGID: ci.GID(g[24:40])}
}
