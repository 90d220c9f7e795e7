package wiresuite

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/wire"
)

// packet is a packet from the adapter under test.
type packet struct {
	wire.Packet
	whole []byte    // bytes as received
	at    int       // offset of the BTH
	num   int       // number in the evidence
	when  time.Time // time of arrival
	src   ci.GID    // source address, on Ethernet
	sport uint16    // UDP source port
}

// String returns the packet in one line.
func (p *packet) String() string {
	s := fmt.Sprintf("%v, PSN %#x, QP %#x", p.BTH.Opcode, p.BTH.PSN, p.BTH.DestQP)
	if p.BTH.AckReq {
		s += ", AckReq"
	}
	if p.BTH.Opcode.HasRETH() {
		s += fmt.Sprintf(", RETH(%#x, key %#x, %d)", p.RETH.VA, p.RETH.RKey, p.RETH.DMALen)
	}
	if p.BTH.Opcode.HasFETH() {
		s += fmt.Sprintf(", FETH(types %#x, level %d)", p.FETH.Types, p.FETH.Sel)
	}
	if p.BTH.Opcode.HasAtomicETH() {
		s += fmt.Sprintf(", AtomicETH(%#x, key %#x, %#x, %#x)", p.AtomicETH.VA, p.AtomicETH.RKey, p.AtomicETH.SwapAdd,
			p.AtomicETH.Compare)
	}
	if p.BTH.Opcode.HasAETH() {
		s += fmt.Sprintf(", syndrome %#02x, MSN %d", uint8(p.AETH.Syndrome), p.AETH.MSN)
	}
	if p.BTH.Opcode.HasAtomicAckETH() {
		s += fmt.Sprintf(", original %#x", p.AtomicAckETH.Orig)
	}
	if p.BTH.Opcode.HasImm() {
		s += fmt.Sprintf(", immediate %#x", p.ImmDt.Imm)
	}
	if p.BTH.Opcode.HasIETH() {
		s += fmt.Sprintf(", invalidates %#x", p.IETH.RKey)
	}
	if n := len(p.Payload); n > 0 {
		s += fmt.Sprintf(", %d bytes", n)
	}
	return s
}

// outgoing is a packet that the certifier sends. Its fields describe how it differs from an ordinary one.
type outgoing struct {
	wire.Packet
	src, dst   ci.GID
	slid, dlid ci.LID
	sport      uint16
	vl, sl     uint8     // on InfiniBand
	grh        *wire.GRH // on InfiniBand: precedes the BTH
	class      uint8     // traffic class of the IP header
	hops       uint8     // hop limit of the IP header; 0 means 64
	label      uint32
	front      func([]byte)        // changes the headers before the BTH, before the ICRC is computed
	pad        *uint8              // pad count, if not the correct one
	padding    []byte              // pad bytes, if not zero
	alter      func([]byte)        // changes bytes from the BTH to the pad, before the ICRC is computed
	icrcDelta  uint32              // added to the ICRC
	cut        func([]byte) []byte // changes the bytes from the BTH to the ICRC, after the ICRC is computed
	whole      func([]byte)        // changes the complete packet
	original   []byte              // in a tap: the original bytes
}

// twist changes a packet before it is sent.
type twist func(*outgoing)

// bytes returns the packet as it is sent on the link.
func (o *outgoing) bytes(info *validate.WireInfo) []byte {
	o.BTH.Pad = uint8(-len(o.Payload) & 3)
	padding := make([]byte, o.BTH.Pad)
	copy(padding, o.padding)
	if o.pad != nil {
		o.BTH.Pad = *o.pad
	}
	var h [wire.MaxHeaderLen]byte
	t := slices.Concat(h[:o.PutHeaders(h[:])], o.Payload, padding, make([]byte, icrcLen))
	if o.alter != nil {
		o.alter(t[:len(t)-icrcLen])
	}
	head := o.head(info, len(t))
	if o.front != nil {
		o.front(head)
	}
	if info.Link == ci.LinkInfiniBand {
		t = append(t, 0, 0)
	}
	b := slices.Concat(head, t)
	end := len(b)
	if info.Link == ci.LinkInfiniBand {
		end -= vcrcLen
	}
	binary.LittleEndian.PutUint32(b[end-icrcLen:], icrc(info.Link, b, len(head))+o.icrcDelta)
	if o.cut != nil {
		t = o.cut(b[len(head):end])
		b = slices.Concat(o.head(info, len(t)), t)
		end = len(b)
		if info.Link == ci.LinkInfiniBand {
			b = append(b, 0, 0)
		}
	}
	if info.Link == ci.LinkInfiniBand {
		binary.LittleEndian.PutUint16(b[end:], vcrc(b[:end]))
	}
	if o.whole != nil {
		o.whole(b)
	}
	return b
}

// head returns the headers that precede n bytes of transport packet.
func (o *outgoing) head(info *validate.WireInfo, n int) []byte {
	if info.Link == ci.LinkInfiniBand {
		b := make([]byte, lrhLen)
		if o.grh != nil {
			b = append(b, putGRH(o.grh, n)...)
		}
		b[0], b[1] = o.vl<<4, o.sl<<4|2 // LNH: IBA local
		if o.grh != nil {
			b[1] |= 1 // global
		}
		binary.BigEndian.PutUint16(b[2:], uint16(o.dlid))
		binary.BigEndian.PutUint16(b[4:], uint16(len(b)+n)/4)
		binary.BigEndian.PutUint16(b[6:], uint16(o.slid))
		return b
	}
	hops := o.hops
	if hops == 0 {
		hops = 64
	}
	var b []byte
	if isIPv4(o.src) {
		b = make([]byte, ip4Len+udpLen)
		b[0], b[1] = 0x45, o.class
		b[6], b[8], b[9] = 0x40, hops, 17
		binary.BigEndian.PutUint16(b[2:], uint16(ip4Len+udpLen+n))
		copy(b[12:], o.src[12:])
		copy(b[16:], o.dst[12:])
		binary.BigEndian.PutUint16(b[10:], ^sum(b[:ip4Len], 0))
	} else {
		b = make([]byte, ip6Len+udpLen)
		binary.BigEndian.PutUint32(b, 6<<28|uint32(o.class)<<20|o.label)
		b[6], b[7] = 17, hops
		binary.BigEndian.PutUint16(b[4:], uint16(udpLen+n))
		copy(b[8:], o.src[:])
		copy(b[24:], o.dst[:])
	}
	u := b[len(b)-udpLen:]
	binary.BigEndian.PutUint16(u, o.sport)
	binary.BigEndian.PutUint16(u[2:], info.UDPPort)
	binary.BigEndian.PutUint16(u[4:], uint16(udpLen+n))
	return b
}

// putGRH returns the GRH that precedes n bytes, from the BTH to the ICRC.
func putGRH(h *wire.GRH, n int) []byte {
	b := make([]byte, grhLen)
	binary.BigEndian.PutUint32(b, 6<<28|uint32(h.TrafficClass)<<20|h.FlowLabel)
	binary.BigEndian.PutUint16(b[4:], uint16(n))
	b[6], b[7] = nextIBA, h.HopLimit
	copy(b[8:], h.SGID[:])
	copy(b[24:], h.DGID[:])
	return b
}

// sum adds the ones' complement sum of RFC 1071 over b to s.
func sum(b []byte, s uint32) uint16 {
	for i := 0; i < len(b); i += 2 {
		s += uint32(b[i]) << 8
		if i+1 < len(b) {
			s += uint32(b[i+1])
		}
	}
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return uint16(s)
}

// isIPv4 reports whether a GID is a mapped IPv4 address.
func isIPv4(g ci.GID) bool { return [12]byte(g[:12]) == [12]byte{10: 0xff, 11: 0xff} }

// take parses a received packet. If it returns an error, the packet is invalid, and its at field is -1 if there is no
// BTH.
func take(info *validate.WireInfo, b []byte) (*packet, error) {
	p := &packet{whole: b, at: bthAt(info.Link, b), when: time.Now()}
	if p.at < 0 {
		return p, fmt.Errorf("%d bytes are not a packet of this link", len(b))
	}
	end := len(b)
	switch {
	case info.Link == ci.LinkInfiniBand:
		end -= vcrcLen
	case b[0]>>4 == 4:
		p.src = ci.GID{10: 0xff, 11: 0xff}
		copy(p.src[12:], b[12:16])
		p.sport = binary.BigEndian.Uint16(b[p.at-udpLen:])
	default:
		copy(p.src[:], b[8:24])
		p.sport = binary.BigEndian.Uint16(b[p.at-udpLen:])
	}
	t := b[p.at:end]
	if tver := t[1] & 15; tver != 0 { // wire.ParsePacket rejects other versions, so parse a copy with version 0
		t = slices.Clone(t)
		t[1] &^= 15
		err := wire.ParsePacket(t, &p.Packet)
		p.BTH.TVer = tver
		return p, err
	}
	return p, wire.ParsePacket(t, &p.Packet)
}

// isFrom reports whether the source address of the packet is that of an adapter.
func (p *packet) isFrom(link ci.Link, from origin) bool {
	if link != ci.LinkInfiniBand {
		return p.src == from.gid
	}
	return p.at >= lrhLen && ci.LID(binary.BigEndian.Uint16(p.whole[6:])) == from.lid|ci.LID(from.av.PathBits)
}

// Twists.

func withPSN(psn uint32) twist          { return func(o *outgoing) { o.BTH.PSN = psn & wire.Mask24 } }
func withQP(qpn uint32) twist           { return func(o *outgoing) { o.BTH.DestQP = qpn } }
func ackReq(on bool) twist              { return func(o *outgoing) { o.BTH.AckReq = on } }
func withImm(imm uint32) twist          { return func(o *outgoing) { o.ImmDt.Imm = imm } }
func withReth(r wire.RETH) twist        { return func(o *outgoing) { o.RETH = r } }
func withAeth(a wire.AETH) twist        { return func(o *outgoing) { o.AETH = a } }
func withOrig(v uint64) twist           { return func(o *outgoing) { o.AtomicAckETH.Orig = v } }
func withDeth(d wire.DETH) twist        { return func(o *outgoing) { o.DETH = d } }
func withAtomic(a wire.AtomicETH) twist { return func(o *outgoing) { o.AtomicETH = a } }
