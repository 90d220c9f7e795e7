package model

import (
	"ciddk/ci"
	"ciddk/internal/mlx4/prm"
	"ciddk/rvt"
)

// managementRing is the send queue of QP0 or QP1, or of the QP that sends for QP1. Its WQEs have packet headers, which
// the decoder checks, so that the transport need not.
type managementRing struct{ rvt.SendRing }

// Sizes of headers.
const (
	lrhSize  = 8
	grhSize  = 40
	bthSize  = 12
	dethSize = 8
	ethSize  = 14
	vlanSize = 4
	ip4Size  = 20
	udpSize  = 8
)

// bthSolicited is the solicited event bit in byte 1 of the BTH.
const bthSolicited = 1 << 7

// management decodes a WQE of QP0 or QP1: inline headers, data segments, and an inline segment for the ICRC, which the
// transport computes.
func (d *decoder) management(ctrl []byte) bool {
	var header [maxSendWQE]byte
	h := d.headers(header[:0])
	for len(d.b) >= prm.DataSegment && !prm.InlineFlag.Has(d.b) {
		if len(d.w.SGL) == cap(d.w.SGL) {
			return false
		}
		d.w.SGL = append(d.w.SGL, dataSegment(d.take(prm.DataSegment), d.q.hasReservedKey))
	}
	d.inline = d.inline[:0]
	p := d.q.m.port(max(d.q.port, d.q.gsiPort))
	var av ci.AVAttr
	var ok bool
	if p.isEthernet() {
		av, h, ok = p.ethernetHeaders(h)
	} else {
		av, h, ok = infiniBandHeaders(h)
		av.DLID = ci.LID(prm.MLXRemoteLID.Get(ctrl))
	}
	if !ok || len(h) < bthSize+dethSize {
		return false
	}
	av.Port = p.num
	d.w.FromQP1 = d.q.gsiPort != 0
	bth, deth := h[:bthSize], h[bthSize:]
	d.w.DestQP = ci.QPN(bigEndian.Uint32(bth[4:]) & indexMask)
	d.w.QKey = ci.QKey(bigEndian.Uint32(deth))
	if d.w.PKeyIx, ok = p.pkeyIndex(ci.PKey(bigEndian.Uint16(bth[2:]))); !ok {
		return false
	}
	if bth[1]&bthSolicited != 0 { // the control segment does not repeat it
		d.w.Flags |= ci.SendSolicited
	}
	d.w.AV = d.q.avs.get(av)
	return d.w.AV != nil
}

// headers removes the inline segments at the beginning and returns their data.
func (d *decoder) headers(h []byte) []byte {
	for len(d.b) >= prm.DataSegment && prm.InlineFlag.Has(d.b) && prm.InlineCount.Get(d.b) != 0 {
		d.inline = d.inline[:0]
		if !d.inlineSegment() {
			return nil
		}
		h = append(h, d.inline...)
	}
	return h
}

// infiniBandHeaders returns the address of LRH and GRH, and what follows them.
func infiniBandHeaders(h []byte) (av ci.AVAttr, rest []byte, ok bool) {
	const hasGRH = 3 // LNH
	if len(h) < lrhSize {
		return av, nil, false
	}
	av.SL = ci.SL(h[1] >> 4)
	av.PathBits = h[7] & 0x7f
	if h[1]&3 != hasGRH {
		return av, h[lrhSize:], true
	}
	h = h[lrhSize:]
	if len(h) < grhSize {
		return av, nil, false
	}
	av.Global = true
	av.GRH = grhAddress(h)
	return av, h[grhSize:], true
}

func grhAddress(h []byte) ci.GRH {
	first := bigEndian.Uint32(h)
	return ci.GRH{DGID: ci.GID(h[24:40]), FlowLabel: first & 0xfffff, TrafficClass: uint8(first >> 20), HopLimit: h[7]}
}

// ethernetHeaders returns the address of the Ethernet and network headers of a RoCE packet, and what follows them.
func (p *port) ethernetHeaders(h []byte) (av ci.AVAttr, rest []byte, ok bool) {
	const (
		typeVLAN = 0x8100
		typeRoCE = 0x8915
		typeIP4  = 0x0800
		typeIP6  = 0x86dd
	)
	if len(h) < ethSize {
		return av, nil, false
	}
	av.DMAC, av.Global = [6]byte(h), true
	kind := bigEndian.Uint16(h[12:])
	h = h[ethSize:]
	if kind == typeVLAN && len(h) >= vlanSize {
		kind = bigEndian.Uint16(h[2:])
		h = h[vlanSize:]
	}
	var source ci.GID
	switch {
	case (kind == typeRoCE || kind == typeIP6) && len(h) >= grhSize:
		av.GRH = grhAddress(h)
		source = ci.GID(h[8:24])
		h = h[grhSize:]
	case kind == typeIP4 && len(h) >= ip4Size:
		av.GRH = ci.GRH{DGID: mappedGID(h[16:20]), TrafficClass: h[1], HopLimit: h[8]}
		source = mappedGID(h[12:16])
		h = h[ip4Size:]
	default:
		return av, nil, false
	}
	t := ci.GIDRoCEv1
	if kind != typeRoCE {
		t = ci.GIDRoCEv2
		if len(h) < udpSize {
			return av, nil, false
		}
		h = h[udpSize:]
	}
	for i, e := range p.link.Attr().GIDs {
		if e.GID == source && e.Type == t {
			av.GRH.SGIDIndex = uint16(i)
			return av, h, true
		}
	}
	return av, nil, false
}

// mappedGID returns the GID of an IPv4 address.
func mappedGID(ip []byte) ci.GID {
	return ci.GID{10: 0xff, 11: 0xff, 12: ip[0], 13: ip[1], 14: ip[2], 15: ip[3]}
}

// pkeyIndex returns the index of a P_Key in the port's table.
func (p *port) pkeyIndex(k ci.PKey) (uint16, bool) {
	for i, t := range p.link.Attr().PKeys {
		if t&0x7fff != 0 && t&0x7fff == k&0x7fff {
			return uint16(i), true
		}
	}
	return 0, false
}
