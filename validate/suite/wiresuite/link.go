package wiresuite

import (
	"encoding/binary"
	"fmt"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/wire"
)

// linkCases are the cases of the headers before the transport's: LRH and VCRC of an InfiniBand link, GRH, and IP
// header. (IBTA 7.3, 7.6, 7.7, 7.8, 8.3; RoCEv2 A17.)
var linkCases = area()

// dataVLs returns the number of data VLs for a VLCap code (IBTA volume 1, 14.2.5.6), or 0 for an undefined code.
func dataVLs(code uint8) int {
	if n := []int{0, 1, 2, 4, 8, 15}; int(code) < len(n) {
		return n[code]
	}
	return 0
}

// dialLink is dial on an InfiniBand link that passes packets as bytes.
func dialLink(t *validate.T) *peer {
	s := open(t)
	s.needInfiniBand()
	s.needBytes()
	return s.dial()
}

// dialRouted is dialLink with a GRH in both directions.
func dialRouted(t *validate.T, opts ...kit.Option) *peer {
	s := open(t).routed()
	s.needBytes()
	return s.dial(opts...)
}

// front changes the headers before the BTH and then computes the CRCs, which are therefore correct.
func front(f func(b []byte)) twist { return func(o *outgoing) { o.front = f } }

// late changes the packet after the ICRC is computed and computes only the VCRC again, as a switch or router does.
func late(f func(b []byte)) twist {
	return func(o *outgoing) {
		o.whole = func(b []byte) {
			f(b)
			end := len(b) - vcrcLen
			binary.LittleEndian.PutUint16(b[end:], vcrc(b[:end]))
		}
	}
}

var _ = linkCases.Add("wire.drop.vcrc", "a wrong VCRC", func(t *validate.T) {
	p := dialLink(t)
	for _, d := range kit.Variants(t, "shift", []byte{0x01, 0x80, 0xff}) {
		p.ignored(fmt.Sprintf("a WRITE whose VCRC is off by %#02x", d), wire.RCWriteOnly,
			func(o *outgoing) { o.whole = func(b []byte) { b[len(b)-1] ^= d } })
	}
}, linkCases.Must("WIRE-Drop-11", "IBTA 7.8", "VCRC",
	"A packet with a wrong VCRC is dropped without an answer."))

var _ = linkCases.Add("wire.drop.lrh", "packets with invalid LRHs", func(t *validate.T) {
	p := dialLink(t)
	for _, v := range kit.Variants(t, "value", []byte{1, 8, 15}) {
		p.ignored(fmt.Sprintf("a WRITE with link version %d", v), wire.RCWriteOnly, front(func(b []byte) { b[0] |= v }))
	}
	for _, lnh := range kit.Variants(t, "LNH", []byte{0, 1}) {
		p.ignored(fmt.Sprintf("a WRITE with LNH %d, a raw packet", lnh), wire.RCWriteOnly,
			front(func(b []byte) { b[1] = b[1]&^3 | lnh }))
	}
	for _, d := range kit.Variants(t, "shift", []int{-1, 1, 4}) {
		p.ignored(fmt.Sprintf("a WRITE whose LRH packet length is off by %d words", d), wire.RCWriteOnly,
			front(func(b []byte) {
				binary.BigEndian.PutUint16(b[4:], binary.BigEndian.Uint16(b[4:])+uint16(d))
			}))
	}
}, linkCases.Must("WIRE-Drop-12", "IBTA 7.7", "LRH; link packet check",
	"A packet is dropped without an answer if its link version is not 0, if it is a raw packet, or if its length "+
		"is not that of its LRH."))

var _ = linkCases.Add("wire.drop.vl15", "a request on VL 15", func(t *validate.T) {
	p := dialLink(t)
	p.ignored("a WRITE on VL 15", wire.RCWriteOnly, func(o *outgoing) { o.vl = 15 })
}, linkCases.Must("WIRE-Drop-13", "IBTA 7.6", "VL 15",
	"VL 15 carries only subnet management: a packet on VL 15 to a QP other than QP0 is dropped without an answer."))

var _ = linkCases.Add("wire.drop.grh", "packets with invalid GRHs", func(t *validate.T) {
	p := dialRouted(t)
	for _, x := range kit.Variants(t, "", []struct {
		what string
		f    func(g []byte)
	}{
		{"version 4", func(g []byte) { g[0] = 4<<4 | g[0]&15 }},
		{"next header 17", func(g []byte) { g[6] = 17 }},
		{"a payload length that is off by 4",
			func(g []byte) { binary.BigEndian.PutUint16(g[4:], binary.BigEndian.Uint16(g[4:])+4) }},
		{"another destination GID", func(g []byte) { g[39] ^= 0x55 }},
	}) {
		p.ignored("a WRITE whose GRH has "+x.what, wire.RCWriteOnly, front(func(b []byte) { x.f(b[lrhLen:]) }))
	}
}, linkCases.Must("WIRE-Drop-14", "IBTA 8.3", "GRH",
	"A packet is dropped without an answer if its GRH has a version other than 6, a next header other than that "+
		"of a BTH, a length other than that of the packet, or a destination that is not a GID of the port."))

var _ = linkCases.Add("wire.take.lrh", "each reserved bit of the LRH set", func(t *validate.T) {
	p := dialLink(t)
	for _, x := range kit.Variants(t, "", []struct{ at, bits byte }{{1, 0x04}, {1, 0x0c}, {4, 0x08}, {4, 0xf8}}) {
		p.taken(fmt.Sprintf("a WRITE with %#02x in byte %d of the LRH", x.bits, x.at), 16,
			front(func(b []byte) { b[x.at] |= x.bits }))
	}
}, linkCases.Must("WIRE-Take-06", "IBTA 7.7", "LRH, reserved fields",
	"The receiver ignores the reserved bits of the LRH."))

var _ = linkCases.Add("wire.take.grh", "GRHs of any traffic class, flow label and hop limit", func(t *validate.T) {
	p := dialRouted(t)
	for _, x := range kit.Variants(t, "", []struct {
		class, hops uint8
		label       uint32
	}{{0, 64, 0}, {0xff, 1, 0xfffff}, {0x03, 255, 0x00001}, {0x80, 0, 0x80000}}) {
		what := fmt.Sprintf("a WRITE with traffic class %#02x, flow label %#05x and hop limit %d", x.class, x.label,
			x.hops)
		p.taken(what, 16,
			func(o *outgoing) { o.grh.TrafficClass, o.grh.FlowLabel, o.grh.HopLimit = x.class, x.label, x.hops })
	}
	p.taken("a WRITE whose traffic class, flow label and hop limit changed on the way", 16, late(func(b []byte) {
		g := b[lrhLen:]
		binary.BigEndian.PutUint32(g, binary.BigEndian.Uint32(g)^0x0ac5ff81)
		g[7]--
	}))
	p.taken("a WRITE whose service level changed on the way", 16, late(func(b []byte) { b[1] ^= 0x50 }))
}, linkCases.Must("WIRE-Take-07", "IBTA 8.3", "GRH; ICRC",
	"A packet with a GRH is accepted whatever its traffic class, flow label and hop limit are, also if they "+
		"changed on the way. The ICRC covers neither these fields nor the LRH."))

var _ = linkCases.Add("wire.take.class",
	"IP headers of any traffic class, hop limit and flow label", func(t *validate.T) {
		p := dial(t)
		p.needEthernet()
		if !p.info.SendsHeader {
			t.Skip("the certifier cannot set the IP header of packets on this link")
		}
		for _, x := range kit.Variants(t, "", []struct {
			class, hops uint8
			label       uint32
		}{{0, 64, 0}, {0xff, 1, 0xfffff}, {0x03, 255, 0x00001}, {0x80, 2, 0x80000}}) {
			what := fmt.Sprintf("a WRITE with traffic class %#02x and hop limit %d", x.class, x.hops)
			if !isIPv4(p.info.GID) {
				what += fmt.Sprintf(", flow label %#05x", x.label)
			}
			p.taken(what, 16, func(o *outgoing) { o.class, o.hops, o.label = x.class, x.hops, x.label })
		}
	}, linkCases.Must("WIRE-Take-08", "RoCEv2 A17.3", "IP header; ICRC",
		"A packet is accepted whatever its traffic class, hop limit and flow label are, since the ICRC does not "+
			"cover them."))

var _ = linkCases.Needing(validate.Needs{Caps: ci.CapUD | ci.CapAV}).Add("wire.ud.grh",
	"a datagram with a GRH", func(t *validate.T) {
		p := dialRouted(t, kit.Type(ci.UD))
		const n = 21
		p.Recv(p.RecvWR(1, 0, areaLen+n))
		o := p.packet(wire.UDSendOnly, p.bytes(n),
			func(o *outgoing) { o.grh.TrafficClass, o.grh.FlowLabel, o.grh.HopLimit = 0x12, 0x34567, 8 })
		b := o.bytes(&p.info)
		p.put(o)
		wc := p.RecvCQ.WaitOK(1)[0]
		kit.Equal(t, "Flags", wc.Flags&ci.WCGRH, ci.WCGRH)
		kit.Equal(t, "Length", wc.Length, uint32(areaLen+n))
		kit.SameBytes(t, "the first 40 bytes of the receive", p.Buf.Bytes[:areaLen], b[lrhLen:lrhLen+grhLen])
	}, linkCases.Must("WIRE-Ud-08", "IBTA 9.8", "the first 40 bytes of a receive",
		"On an InfiniBand link the GRH of a datagram is in the first 40 bytes of its receive, and the completion has "+
			"the GRH flag."))
