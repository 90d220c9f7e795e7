package wiresuite

import (
	"encoding/binary"
	"fmt"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/wire"
)

// finding is one rule that a packet broke.
type finding struct {
	rule          string
	num           int // packet in the evidence
	expected, got string
}

// Rules of form: what can be told from one packet, if the QP it belongs to is known.
const (
	ruleICRC     = "WIRE-Form-01"
	ruleTVer     = "WIRE-Form-02"
	ruleReserved = "WIRE-Form-03"
	rulePadCount = "WIRE-Form-04"
	rulePadZero  = "WIRE-Form-05"
	rulePKey     = "WIRE-Form-06"
	ruleOpcode   = "WIRE-Form-07"
	ruleUDP      = "WIRE-Form-08"
	ruleSport    = "WIRE-Form-09"
	ruleIP       = "WIRE-Form-10"
	ruleChecksum = "WIRE-Form-11"
	ruleSyndrome = "WIRE-Form-12"
	ruleLRH      = "WIRE-Form-13"
	ruleVCRC     = "WIRE-Form-14"
	ruleAnyForm  = "WIRE-Form-15" // any of them, in a case that plays a peer
	ruleLRHPath  = "WIRE-Form-16"
	ruleGRH      = "WIRE-Form-17"
	ruleClass    = "WIRE-Form-18"
	ruleLabel    = "WIRE-Form-19"
	ruleLabelAV  = "WIRE-Form-20"
)

// form judges packets one by one.
type form struct {
	info  validate.WireInfo
	pkey  ci.PKey
	ports map[uint32]uint16 // UDP source port by destination QP: one flow each
	label map[uint32]uint32 // IPv6 flow label likewise
}

// origin is what is known of the QP that a packet comes from.
type origin struct {
	service wire.Service
	av      ci.AVAttr // its way to the certifier
	gid     ci.GID    // its port's, at the address vector's index
	lid     ci.LID    // its port's, on InfiniBand
	vls     int       // data VLs of the port; 0: not known
}

func newForm(info validate.WireInfo, pkey ci.PKey) *form {
	return &form{info: info, pkey: pkey, ports: map[uint32]uint16{}, label: map[uint32]uint32{}}
}

// judge gives what is wrong with a packet; err is what take said of it. from is the QP that sent it.
func (f *form) judge(p *packet, err error, from origin) (out []finding) {
	bad := func(rule, expected, got string, args ...any) {
		out = append(out, finding{rule, p.num, expected, fmt.Sprintf(got, args...)})
	}
	if p.at < 0 {
		if b := p.whole; f.info.Link == ci.LinkInfiniBand && len(b) >= lrhLen && b[1]&3 < 2 {
			bad(ruleLRH, "a link next header of IBA", "LNH %d, a raw packet", b[1]&3)
			return out
		}
		bad(ruleOpcode, "a packet of the link", "%v", err)
		return out
	}
	b, h := p.whole, p.whole[p.at:]
	switch {
	case err != nil:
		bad(ruleOpcode, "headers, payload and pad as the opcode has them", "%v", err)
	case p.BTH.Opcode.Service() != from.service:
		bad(ruleOpcode, fmt.Sprintf("an opcode of %v", from.service), "%v", p.BTH.Opcode)
	}
	if h[1]&15 != 0 {
		bad(ruleTVer, "TVer 0", "%d", h[1]&15)
	}
	if h[4]&0x3f != 0 || h[8]&0x7f != 0 {
		bad(ruleReserved, "the reserved bits of the BTH zero", "byte 4 %#02x, byte 8 %#02x", h[4], h[8])
	}
	if err == nil && p.BTH.Opcode.HasDETH() && p.DETH.Resv8 != 0 {
		bad(ruleReserved, "byte 4 of the DETH zero", "%#02x", p.DETH.Resv8)
	}
	if got := ci.PKey(binary.BigEndian.Uint16(h[2:])); got != f.pkey {
		bad(rulePKey, fmt.Sprintf("P_Key %#04x, the QP's", uint16(f.pkey)), "%#04x", uint16(got))
	}
	if err == nil {
		f.payload(p, bad)
	}
	if !icrcHolds(f.info.Link, b, p.at, f.info.Header) {
		bad(ruleICRC, fmt.Sprintf("ICRC %#08x", icrc(f.info.Link, b, p.at)), "%#08x", icrcOf(f.info.Link, b))
	}
	if f.info.Link == ci.LinkInfiniBand {
		f.link(p, from, bad)
	} else {
		f.network(p, from, bad)
	}
	return out
}

// payload judges pad and syndrome.
func (f *form) payload(p *packet, bad func(rule, expected, got string, args ...any)) {
	op := p.BTH.Opcode
	if p.BTH.Pad > 0 && !(op.End() && op.HasPayload()) {
		bad(rulePadCount, "no pad but behind the last byte of a message", "%d pad bytes in %v", p.BTH.Pad, op)
	}
	for i, c := range p.Padding {
		if c != 0 {
			bad(rulePadZero, "pad bytes of zero", "pad byte %d is %#02x", i+1, c)
			break
		}
	}
	if op.HasAETH() {
		syn := p.AETH.Syndrome
		switch {
		case syn.Reserved():
			bad(ruleSyndrome, "a syndrome that is defined", "%#02x", uint8(syn))
		case op != wire.RCAcknowledge && !syn.IsACK():
			bad(ruleSyndrome, "an ACK syndrome in a "+op.String(), "%#02x", uint8(syn))
		}
	}
}

// network judges what RoCEv2 has in front of the BTH (annex A17).
func (f *form) network(p *packet, from origin, bad func(rule, expected, got string, args ...any)) {
	b := p.whole
	u := b[p.at-udpLen:]
	if got := binary.BigEndian.Uint16(u[2:]); got != f.info.UDPPort {
		bad(ruleUDP, fmt.Sprintf("UDP destination port %d", f.info.UDPPort), "%d", got)
	}
	if got := binary.BigEndian.Uint16(u[4:]); int(got) != len(u) {
		bad(ruleUDP, fmt.Sprintf("UDP length %d", len(u)), "%d", got)
	}
	if old, ok := f.ports[p.BTH.DestQP]; ok && old != p.sport {
		bad(ruleSport, fmt.Sprintf("UDP source port %d, as before in this flow", old), "%d", p.sport)
	}
	f.ports[p.BTH.DestQP] = p.sport
	four := b[0]>>4 == 4
	if f.info.Header {
		f.ip(b, four, bad)
	}
	f.fields(p, from.av.GRH, bad)
	if got := binary.BigEndian.Uint16(u[6:]); f.info.Checksum && got != 0 {
		var pseudo uint16
		if four {
			pseudo = sum(b[12:20], 17+uint32(len(u)))
		} else {
			pseudo = sum(b[8:40], 17+uint32(len(u)))
		}
		if sum(u, uint32(pseudo)) != 0xffff {
			bad(ruleChecksum, "UDP checksum zero or right", "%#04x", got)
		}
	}
}

// fields judges what the IP header has from the address vector, as far as it shows. The two low bits of the traffic class are the network's, and
// an adapter may say there that it listens to congestion (A17.9).
func (f *form) fields(p *packet, want ci.GRH, bad func(rule, expected, got string, args ...any)) {
	class, hops, label := ipFields(p.whole)
	if f.info.Class && class>>2 != want.TrafficClass>>2 {
		bad(ruleClass, fmt.Sprintf("traffic class %#02x, the address vector's, but for its two low bits", want.TrafficClass), "%#02x", class)
	}
	if f.info.Hops && hops != want.HopLimit {
		bad(ruleClass, fmt.Sprintf("hop limit %d, the address vector's", want.HopLimit), "%d", hops)
	}
	if f.info.Label {
		if old, ok := f.label[p.BTH.DestQP]; ok && old != label {
			bad(ruleLabel, fmt.Sprintf("flow label %#05x, as before in this flow", old), "%#05x", label)
		}
		f.label[p.BTH.DestQP] = label
		if want.FlowLabel != 0 && label != want.FlowLabel {
			bad(ruleLabelAV, fmt.Sprintf("flow label %#05x, the address vector's", want.FlowLabel), "%#05x", label)
		}
	}
}

// ip judges the IP header, where it is the wire's.
func (f *form) ip(b []byte, four bool, bad func(rule, expected, got string, args ...any)) {
	if !four {
		if n := binary.BigEndian.Uint16(b[4:]); int(n) != len(b)-ip6Len || b[6] != 17 || b[7] == 0 {
			bad(ruleIP, fmt.Sprintf("payload length %d, next header 17, a hop limit", len(b)-ip6Len), "%d, %d, %d", n, b[6], b[7])
		}
		return
	}
	switch n := binary.BigEndian.Uint16(b[2:]); {
	case b[0] != 0x45:
		bad(ruleIP, "an IPv4 header without options", "header of %d bytes", b[0]&15*4)
	case int(n) != len(b):
		bad(ruleIP, fmt.Sprintf("IPv4 total length %d", len(b)), "%d", n)
	case b[6] != 0x40 || b[7] != 0:
		bad(ruleIP, "flags DF and no fragment offset", "%#02x%02x", b[6], b[7])
	case b[8] == 0 || b[9] != 17:
		bad(ruleIP, "a TTL, and protocol 17", "%d, %d", b[8], b[9])
	case sum(b[:ip4Len], 0) != 0xffff:
		bad(ruleIP, "a right header checksum", "%#02x%02x", b[10], b[11])
	}
}

// link judges LRH, GRH and VCRC of an InfiniBand packet (IBTA volume 1, 7.7, 8.3 and 7.8.2).
func (f *form) link(p *packet, from origin, bad func(rule, expected, got string, args ...any)) {
	b := p.whole
	n := int(binary.BigEndian.Uint16(b[4:])&0x7ff) * 4
	vl, sl := int(b[0]>>4), ci.SL(b[1]>>4)
	dlid, slid := ci.LID(binary.BigEndian.Uint16(b[2:])), ci.LID(binary.BigEndian.Uint16(b[6:]))
	global := p.at > lrhLen
	switch {
	case b[0]&15 != 0:
		bad(ruleLRH, "link version 0", "%d", b[0]&15)
	case b[1]&0x0c != 0 || b[4]&0xf8 != 0:
		bad(ruleLRH, "the reserved bits of the LRH zero", "byte 1 %#02x, byte 4 %#02x", b[1], b[4])
	case n != len(b)-vcrcLen:
		bad(ruleLRH, fmt.Sprintf("packet length of %d bytes", len(b)-vcrcLen), "%d", n)
	case vl == 15 || from.vls > 0 && vl >= from.vls:
		bad(ruleLRH, "a data VL of the port", "VL %d", vl)
	case dlid != f.info.LID:
		bad(ruleLRH, fmt.Sprintf("destination LID %#x", f.info.LID), "%#x", dlid)
	case global != from.av.Global:
		bad(ruleLRH, fmt.Sprintf("a GRH if the address vector has one (%v)", from.av.Global), "LNH %d", b[1]&3)
	}
	if want := from.lid | ci.LID(from.av.PathBits); slid != want || sl != from.av.SL {
		bad(ruleLRHPath, fmt.Sprintf("source LID %#x, service level %d", want, from.av.SL), "%#x, %d", slid, sl)
	}
	if global {
		f.grh(b[lrhLen:], len(b)-lrhLen-grhLen-vcrcLen, from, bad)
	}
	if got, want := binary.LittleEndian.Uint16(b[len(b)-vcrcLen:]), vcrc(b[:len(b)-vcrcLen]); got != want {
		bad(ruleVCRC, fmt.Sprintf("VCRC %#04x", want), "%#04x", got)
	}
}

// grh judges a GRH in front of n bytes up to the ICRC.
func (f *form) grh(g []byte, n int, from origin, bad func(rule, expected, got string, args ...any)) {
	class, hops, label := ipFields(g)
	want := from.av.GRH
	switch {
	case g[0]>>4 != 6 || g[6] != nextIBA || int(binary.BigEndian.Uint16(g[4:])) != n:
		bad(ruleGRH, fmt.Sprintf("a GRH of version 6, next header %#x, payload length %d", nextIBA, n), "version %d, next header %#x, length %d", g[0]>>4, g[6],
			binary.BigEndian.Uint16(g[4:]))
	case class != want.TrafficClass || label != want.FlowLabel || hops != want.HopLimit:
		bad(ruleGRH, fmt.Sprintf("traffic class %#02x, flow label %#05x, hop limit %d, as the address vector has them", want.TrafficClass, want.FlowLabel, want.HopLimit),
			"%#02x, %#05x, %d", class, label, hops)
	case ci.GID(g[8:24]) != from.gid || ci.GID(g[24:40]) != want.DGID:
		bad(ruleGRH, fmt.Sprintf("source GID %x, destination %x", from.gid, want.DGID), "%x, %x", g[8:24], g[24:40])
	}
}

// ipFields reads traffic class, hop limit and flow label of an IP header or a GRH; IPv4 has no label.
func ipFields(b []byte) (class, hops uint8, label uint32) {
	if b[0]>>4 == 4 {
		return b[1], b[8], 0
	}
	w := binary.BigEndian.Uint32(b)
	return uint8(w >> 20), b[7], w & 0xfffff
}
