package wiresuite

import (
	"encoding/binary"
	"fmt"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/wire"
)

// finding is a rule that a packet breaks.
type finding struct {
	rule          string
	num           int // number of the packet in the evidence
	expected, got string
}

// Rules of form. They can be checked on a single packet if its QP is known.
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
	ruleAnyForm  = "WIRE-Form-15" // any of these rules, in a case that plays a peer
	ruleLRHPath  = "WIRE-Form-16"
	ruleGRH      = "WIRE-Form-17"
	ruleClass    = "WIRE-Form-18"
	ruleLabel    = "WIRE-Form-19"
	ruleLabelAV  = "WIRE-Form-20"
)

// form checks the format of single packets.
type form struct {
	info  validate.WireInfo
	pkey  ci.PKey
	ports map[path]uint16 // UDP source ports
	label map[path]uint32 // IPv6 flow labels
}

// path identifies the packets from an Ethernet port to a QP, which are one flow.
type path struct {
	from ci.GID
	to   uint32 // destination QP
}

func (p *packet) path() path { return path{p.src, p.BTH.DestQP} }

// origin describes the QP that sends a packet.
type origin struct {
	service wire.Service
	av      ci.AVAttr // address vector towards the certifier
	gid     ci.GID    // GID of its port at the address vector's index
	lid     ci.LID    // LID of its port, on InfiniBand
	vls     int       // number of data VLs of its port; 0 if unknown
	marked  bool      // it has received a packet that the network has marked as congested
}

func newForm(info validate.WireInfo, pkey ci.PKey) *form {
	return &form{info: info, pkey: pkey, ports: map[path]uint16{}, label: map[path]uint32{}}
}

// check returns the rules that a packet breaks. err is the error of take, and from describes the QP that sent the
// packet.
func (f *form) check(p *packet, err error, from origin) (out []finding) {
	bad := func(rule, expected, got string, args ...any) {
		out = append(out, finding{rule, p.num, expected, fmt.Sprintf(got, args...)})
	}
	if p.at < 0 {
		if b := p.whole; f.info.Link == ci.LinkInfiniBand && len(b) >= lrhLen && b[1]&3 < 2 {
			bad(ruleLRH, "a link next header (LNH) of 2 or 3, an IBA packet", "LNH %d, a raw packet", b[1]&3)
			return out
		}
		bad(ruleOpcode, "an InfiniBand or RoCEv2 packet", "%v", err)
		return out
	}
	b, h := p.whole, p.whole[p.at:]
	switch {
	case err != nil:
		bad(ruleOpcode, "headers, payload and pad that fit the opcode", "%v", err)
	case isNotification(p) && from.marked: // RoCEv2 A17.9.3
		if !p.BTH.BECN || p.BTH.PSN != 0 || p.BTH.AckReq {
			bad(ruleOpcode, "a CNP with BECN, PSN 0 and no AckReq", "%+v", p.BTH)
		}
	case p.BTH.Opcode.Service() != from.service:
		bad(ruleOpcode, fmt.Sprintf("an opcode of %v", from.service), "%v", p.BTH.Opcode)
	}
	if h[1]&15 != 0 {
		bad(ruleTVer, "transport version (TVer) 0", "%d", h[1]&15)
	}
	if h[4]&0x3f != 0 || h[8]&0x7f != 0 {
		bad(ruleReserved, "reserved bits of the BTH that are zero", "byte 4 %#02x, byte 8 %#02x", h[4], h[8])
	}
	if err == nil && p.BTH.Opcode.HasDETH() && p.DETH.Resv8 != 0 {
		bad(ruleReserved, "a reserved byte of the DETH (byte 4) that is zero", "%#02x", p.DETH.Resv8)
	}
	if got := ci.PKey(binary.BigEndian.Uint16(h[2:])); got != f.pkey {
		bad(rulePKey, fmt.Sprintf("P_Key %#04x, that of the QP", uint16(f.pkey)), "%#04x", uint16(got))
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

// isNotification reports whether a packet is a congestion notification (CNP).
func isNotification(p *packet) bool { return p.BTH.Opcode == wire.CNP }

// payload checks the pad and the syndrome.
func (f *form) payload(p *packet, bad func(rule, expected, got string, args ...any)) {
	op := p.BTH.Opcode
	if p.BTH.Pad > 0 && !(op.End() && op.HasPayload()) {
		bad(rulePadCount, "a pad only after the last byte of a message", "%d pad bytes in %v", p.BTH.Pad, op)
	}
	for i, c := range p.Padding {
		if c != 0 {
			bad(rulePadZero, "pad bytes that are zero", "pad byte %d is %#02x", i+1, c)
			break
		}
	}
	if op.HasAETH() {
		syn := p.AETH.Syndrome
		switch {
		case syn.Reserved():
			bad(ruleSyndrome, "a defined syndrome", "%#02x", uint8(syn))
		case op != wire.RCAcknowledge && !syn.IsACK():
			bad(ruleSyndrome, "an ACK syndrome in a "+op.String(), "%#02x", uint8(syn))
		}
	}
}

// network checks the headers that RoCEv2 puts before the BTH (annex A17).
func (f *form) network(p *packet, from origin, bad func(rule, expected, got string, args ...any)) {
	b := p.whole
	u := b[p.at-udpLen:]
	if got := binary.BigEndian.Uint16(u[2:]); got != f.info.UDPPort {
		bad(ruleUDP, fmt.Sprintf("UDP destination port %d", f.info.UDPPort), "%d", got)
	}
	if got := binary.BigEndian.Uint16(u[4:]); int(got) != len(u) {
		bad(ruleUDP, fmt.Sprintf("UDP length %d", len(u)), "%d", got)
	}
	if !isNotification(p) { // which may have a flow and a traffic class of their own
		if earlier, ok := f.ports[p.path()]; ok && earlier != p.sport {
			bad(ruleSport, fmt.Sprintf("UDP source port %d, that of earlier packets of this flow", earlier), "%d",
				p.sport)
		}
		f.ports[p.path()] = p.sport
		f.fields(p, from.av.GRH, bad)
	}
	four := b[0]>>4 == 4
	if f.info.Header {
		f.ip(b, four, bad)
	}
	if got := binary.BigEndian.Uint16(u[6:]); f.info.Checksum && got != 0 {
		var pseudo uint16
		if four {
			pseudo = sum(b[12:20], 17+uint32(len(u)))
		} else {
			pseudo = sum(b[8:40], 17+uint32(len(u)))
		}
		if sum(u, uint32(pseudo)) != 0xffff {
			bad(ruleChecksum, "a UDP checksum that is zero or correct", "%#04x", got)
		}
	}
}

// fields checks the fields of the IP header that come from the address vector, if the link reports them. The network
// may change the two low bits of the traffic class, and an adapter may announce there that it reacts to congestion
// (A17.9).
func (f *form) fields(p *packet, want ci.GRH, bad func(rule, expected, got string, args ...any)) {
	class, hops, label := ipFields(p.whole)
	if f.info.Class && class>>2 != want.TrafficClass>>2 {
		bad(ruleClass,
			fmt.Sprintf("traffic class %#02x, that of the address vector, except the two low bits", want.TrafficClass),
			"%#02x", class)
	}
	if f.info.Hops && hops != want.HopLimit {
		bad(ruleClass, fmt.Sprintf("hop limit %d, that of the address vector", want.HopLimit), "%d", hops)
	}
	if f.info.Label {
		if earlier, ok := f.label[p.path()]; ok && earlier != label {
			bad(ruleLabel, fmt.Sprintf("flow label %#05x, that of earlier packets of this flow", earlier), "%#05x",
				label)
		}
		f.label[p.path()] = label
		if want.FlowLabel != 0 && label != want.FlowLabel {
			bad(ruleLabelAV, fmt.Sprintf("flow label %#05x, that of the address vector", want.FlowLabel), "%#05x",
				label)
		}
	}
}

// ip checks the IP header on links where the certifier receives it as it was sent.
func (f *form) ip(b []byte, four bool, bad func(rule, expected, got string, args ...any)) {
	if !four {
		if n := binary.BigEndian.Uint16(b[4:]); int(n) != len(b)-ip6Len || b[6] != 17 || b[7] == 0 {
			bad(ruleIP, fmt.Sprintf("payload length %d, next header 17, a hop limit above 0", len(b)-ip6Len),
				"payload length %d, next header %d, hop limit %d", n, b[6], b[7])
		}
		return
	}
	switch n := binary.BigEndian.Uint16(b[2:]); {
	case b[0] != 0x45:
		bad(ruleIP, "an IPv4 header without options", "a header of %d bytes", b[0]&15*4)
	case int(n) != len(b):
		bad(ruleIP, fmt.Sprintf("IPv4 total length %d", len(b)), "%d", n)
	case b[6] != 0x40 || b[7] != 0:
		bad(ruleIP, "the flag DF and fragment offset 0 (0x4000)", "%#02x%02x", b[6], b[7])
	case b[8] == 0 || b[9] != 17:
		bad(ruleIP, "a TTL above 0 and protocol 17", "TTL %d, protocol %d", b[8], b[9])
	case sum(b[:ip4Len], 0) != 0xffff:
		bad(ruleIP, "a correct IPv4 header checksum", "%#02x%02x", b[10], b[11])
	}
}

// link checks the LRH, GRH and VCRC of an InfiniBand packet (IBTA volume 1, 7.7, 8.3 and 7.8.2).
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
		bad(ruleLRH, "reserved bits of the LRH that are zero", "byte 1 %#02x, byte 4 %#02x", b[1], b[4])
	case n != len(b)-vcrcLen:
		bad(ruleLRH, fmt.Sprintf("an LRH packet length of %d bytes", len(b)-vcrcLen), "%d", n)
	case vl == 15 || from.vls > 0 && vl >= from.vls:
		bad(ruleLRH, "a data VL of the port", "VL %d", vl)
	case dlid != f.info.LID:
		bad(ruleLRH, fmt.Sprintf("destination LID %#x", f.info.LID), "%#x", dlid)
	case global != from.av.Global:
		bad(ruleLRH, fmt.Sprintf("a GRH: %v, as in the address vector", from.av.Global), "LNH %d", b[1]&3)
	}
	if want := from.lid | ci.LID(from.av.PathBits); slid != want || sl != from.av.SL {
		bad(ruleLRHPath, fmt.Sprintf("source LID %#x, service level %d", want, from.av.SL),
			"source LID %#x, service level %d", slid, sl)
	}
	if global {
		f.grh(b[lrhLen:], len(b)-lrhLen-grhLen-vcrcLen, from, bad)
	}
	if got, want := binary.LittleEndian.Uint16(b[len(b)-vcrcLen:]), vcrc(b[:len(b)-vcrcLen]); got != want {
		bad(ruleVCRC, fmt.Sprintf("VCRC %#04x", want), "%#04x", got)
	}
}

// grh checks a GRH before n bytes, ICRC included.
func (f *form) grh(g []byte, n int, from origin, bad func(rule, expected, got string, args ...any)) {
	class, hops, label := ipFields(g)
	want := from.av.GRH
	switch {
	case g[0]>>4 != 6 || g[6] != nextIBA || int(binary.BigEndian.Uint16(g[4:])) != n:
		bad(ruleGRH, fmt.Sprintf("a GRH of version 6, next header %#x, payload length %d", nextIBA, n),
			"version %d, next header %#x, length %d", g[0]>>4, g[6],
			binary.BigEndian.Uint16(g[4:]))
	case class != want.TrafficClass || label != want.FlowLabel || hops != want.HopLimit:
		bad(ruleGRH,
			fmt.Sprintf("traffic class %#02x, flow label %#05x, hop limit %d, those of the address vector",
				want.TrafficClass, want.FlowLabel, want.HopLimit),
			"traffic class %#02x, flow label %#05x, hop limit %d", class, label, hops)
	case ci.GID(g[8:24]) != from.gid || ci.GID(g[24:40]) != want.DGID:
		bad(ruleGRH, fmt.Sprintf("source GID %x, destination GID %x", from.gid, want.DGID),
			"source GID %x, destination GID %x", g[8:24], g[24:40])
	}
}

// ipFields returns the traffic class, hop limit and flow label of an IP header or GRH. The label is 0 for IPv4.
func ipFields(b []byte) (class, hops uint8, label uint32) {
	if b[0]>>4 == 4 {
		return b[1], b[8], 0
	}
	w := binary.BigEndian.Uint32(b)
	return uint8(w >> 20), b[7], w & 0xfffff
}
