package frame

import (
	"fmt"
	"net/netip"

	"ciddk/ci"
	"ciddk/rvt"
	"ciddk/wire"
)

// A route is a compiled address: the headers of its packets but for lengths and identification.
type route struct {
	port *Port
	src  ci.GID
	dst  ci.GID
	typ  ci.GIDType
	mac  [6]byte   // destination, if near is nil
	near *neighbor // resolves the destination

	class, hops uint8
	label       uint32
	udp         uint16 // source port of RoCEv2
	flow4       wire.Flow4
	flow6       wire.Flow6
}

// Peer returns the destination.
func (r *route) Peer() rvt.Addr { return rvt.Addr{GID: r.dst} }

// Local returns the source.
func (r *route) Local() ci.GID { return r.src }

// is4 reports whether the packets have an IPv4 header.
func (r *route) is4() bool { return r.typ == ci.GIDRoCEv2 && addrOf(r.dst).Is4() }

// defaultHops is the TTL or hop limit of packets that request none.
const defaultHops = 64

// Route compiles an address. It uses the GRH even if Global is not set, because every RoCE packet has one. The type of
// entry SGIDIndex of the GID table selects RoCEv1 or RoCEv2.
func (p *Port) Route(av *ci.AVAttr, f rvt.Flow) (rvt.Route, error) {
	bad := func(s ci.Status, format string, args ...any) (rvt.Route, error) {
		return nil, &ci.Error{Verb: "Port.Route", Status: s, Detail: fmt.Sprintf(format, args...)}
	}
	t := p.table.Load()
	i := int(av.GRH.SGIDIndex)
	if i >= len(t.list) || t.list[i].GID == (ci.GID{}) {
		return bad(ci.InvalidIndex, "source GID index %d: the entry does not exist or is empty; the table has %d "+
			"entries",
			i, len(t.list))
	}
	r := &route{port: p, src: t.list[i].GID, typ: t.list[i].Type, dst: av.GRH.DGID, class: av.GRH.TrafficClass,
		hops: av.GRH.HopLimit, label: av.GRH.FlowLabel & wire.MaskFlowLabel, mac: av.DMAC}
	src, dst := addrOf(r.src), addrOf(r.dst)
	switch {
	case r.dst == (ci.GID{}):
		return bad(ci.InvalidParameter, "the destination GID is zero")
	case !f.Datagram && dst.IsMulticast():
		return bad(ci.InvalidParameter, "a connection to the multicast group %v", dst)
	case r.typ == ci.GIDRoCEv2 && src.Is4() != dst.Is4():
		return bad(ci.InvalidParameter, "destination %v and source %v are of different address families", dst, src)
	}
	if r.hops == 0 {
		r.hops = defaultHops
	}
	if !p.setDestination(r, dst) {
		return bad(ci.InvalidParameter, "the MAC address of %v is not known: set AVAttr.DMAC, or use Config.Resolve",
			dst)
	}
	if r.typ == ci.GIDRoCEv2 {
		r.setFlow(f)
	}
	return r, nil
}

// setDestination sets how the destination's MAC is found. It returns false if it cannot be found.
func (p *Port) setDestination(r *route, dst netip.Addr) bool {
	if r.mac != ([6]byte{}) {
		return true
	}
	if dst.IsMulticast() {
		r.mac = groupMAC(dst)
		return true
	}
	if p.table.Load().hasAddr(dst) {
		r.mac = p.MAC()
		return true
	}
	if mac, ok := embeddedMAC(dst); ok {
		r.mac = mac
		return true
	}
	if p.arp == nil {
		return false
	}
	r.near = p.arp.neighbor(dst)
	return r.near != nil
}

// firstSource is the first of the UDP ports from which packets are sent; there are 2^14.
const firstSource = 0xc000

// setFlow selects a UDP source port for the flow, and prepares the ICRC.
func (r *route) setFlow(f rvt.Flow) {
	const golden = 0x9e3779b1 // 2^32 divided by the golden ratio: neighbouring numbers are spread
	r.udp = firstSource | uint16((uint32(f.Local)*golden^uint32(f.Remote)*golden>>7)>>18)
	if r.is4() {
		r.flow4 = wire.NewFlow4(addrOf(r.src).As4(), addrOf(r.dst).As4(), r.udp, wire.RoCEv2Port,
			wire.IPv4DontFragment)
		return
	}
	r.flow6 = wire.NewFlow6(r.src, r.dst, r.udp, wire.RoCEv2Port)
}

// headerLen returns the number of bytes in front of the BTH.
func (r *route) headerLen() int {
	switch {
	case r.typ == ci.GIDRoCEv1:
		return wire.EthernetLen + wire.GRHLen
	case r.is4():
		return wire.EthernetLen + wire.IPv4Len + wire.UDPLen
	}
	return wire.EthernetLen + wire.IPv6Len + wire.UDPLen
}

// putHeaders writes the headers in front of the BTH of a packet of n bytes, BTH to ICRC, and returns its ICRC so far.
func (r *route) putHeaders(b []byte, src, dst [6]byte, n int, id uint16) wire.ICRC {
	eth := wire.Ethernet{Src: src, Dst: dst}
	var icrc wire.ICRC
	l3 := b[wire.EthernetLen:]
	switch {
	case r.typ == ci.GIDRoCEv1:
		eth.EtherType = wire.EtherTypeRoCEv1
		h := wire.GRH{TrafficClass: r.class, FlowLabel: r.label, PayloadLen: uint16(n), NextHeader: wire.NextHeaderIBA,
			HopLimit: r.hops, SGID: r.src, DGID: r.dst}
		h.Put(l3)
		icrc = wire.StartGRH(&h)
	case r.is4():
		eth.EtherType = wire.EtherTypeIPv4
		h := wire.IPv4{TOS: r.class, TotalLen: uint16(wire.IPv4Len + wire.UDPLen + n), ID: id,
			Frag: wire.IPv4DontFragment, TTL: r.hops, Protocol: wire.ProtocolUDP, Src: [4]byte(r.src[12:]),
			Dst: [4]byte(r.dst[12:])}
		h.SetChecksum()
		h.Put(l3)
		r.putUDP(l3[wire.IPv4Len:], n)
		icrc = r.flow4.Start(n, id)
	default:
		eth.EtherType = wire.EtherTypeIPv6
		h := wire.IPv6{TrafficClass: r.class, FlowLabel: r.label, PayloadLen: uint16(wire.UDPLen + n),
			NextHeader: wire.ProtocolUDP, HopLimit: r.hops, Src: r.src, Dst: r.dst}
		h.Put(l3)
		r.putUDP(l3[wire.IPv6Len:], n)
		icrc = r.flow6.Start(n)
	}
	eth.Put(b)
	return icrc
}

// putUDP writes a UDP header without a checksum, as adapters do.
func (r *route) putUDP(b []byte, n int) {
	u := wire.UDP{SrcPort: r.udp, DstPort: wire.RoCEv2Port, Length: uint16(wire.UDPLen + n)}
	u.Put(b)
}
