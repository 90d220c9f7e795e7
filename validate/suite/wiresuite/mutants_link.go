package wiresuite

import (
	"encoding/binary"

	"ciddk/ci"
	"ciddk/validate/mutant"
	"ciddk/wire"
)

// udpOf returns the part of an IP packet that starts with the UDP header.
func udpOf(b []byte) []byte {
	if b[0]>>4 == 6 {
		return b[ip6Len:]
	}
	return b[ip4Len:]
}

// linkMutants returns faults in the headers of an InfiniBand link. They are visible where the certifier's end of the
// link receives these headers.
func linkMutants() []mutant.Mutant {
	direct := func(name, breaks, does string, f tap) mutant.Mutant {
		return on("direct", fault(name, breaks, does, f))
	}
	routed := func(o *outgoing) bool { return o.grh != nil }
	front := func(f func(b []byte)) func(*view, *outgoing) { return func(_ *view, o *outgoing) { o.front = f } }
	came := func(wrong func(b []byte) bool) func(*view, *outgoing) bool {
		return func(_ *view, o *outgoing) bool { return wrong(o.original) }
	}
	same := func(*view, *outgoing) {} // rebuilding the packet makes it valid
	return []mutant.Mutant{
		direct("link-version", ruleLRH, "acknowledgements have link version 1",
			leaving(acks, front(func(b []byte) { b[0] |= 1 }))),
		direct("link-reserved", ruleLRH, "a reserved bit of the LRH is set in SENDs of one packet",
			leaving(is(wire.RCSendOnly), front(func(b []byte) { b[4] |= 0x80 }))),
		direct("link-length", ruleLRH, "the packet length of the LRH does not include the ICRC",
			leaving(acks, front(func(b []byte) {
				binary.BigEndian.PutUint16(b[4:], binary.BigEndian.Uint16(b[4:])-icrcLen/4)
			}))),
		direct("link-lane", ruleLRH, "acknowledgements are sent on VL 15",
			leaving(acks, func(_ *view, o *outgoing) { o.vl = 15 })),
		direct("link-dlid", ruleLRH, "READ responses go to another LID",
			leaving(is(wire.RCReadResponseOnly), func(_ *view, o *outgoing) { o.dlid++ })),
		direct("link-no-grh", ruleLRH, "acknowledgements are sent without the GRH of the address vector",
			leaving(acks, func(_ *view, o *outgoing) { o.grh = nil })),
		direct("link-raw", ruleLRH, "the LRH of acknowledgements declares raw packets",
			leaving(acks, front(func(b []byte) { b[1] &^= 3 }))),
		direct("vcrc", ruleVCRC, "the VCRC is not complemented", leaving(acks, func(_ *view, o *outgoing) {
			o.whole = func(b []byte) { binary.LittleEndian.PutUint16(b[len(b)-vcrcLen:], ^vcrc(b[:len(b)-vcrcLen])) }
		})),
		direct("path-level", ruleLRHPath, "the service level is always 0",
			leaving(routed, func(_ *view, o *outgoing) { o.sl = 0 })),
		direct("path-source", ruleLRHPath, "the source LID of acknowledgements is off by one",
			leaving(acks, func(_ *view, o *outgoing) { o.slid++ })),
		direct("grh-length", ruleGRH, "the payload length of the GRH includes the GRH",
			leaving(routed, front(func(b []byte) {
				g := b[lrhLen:]
				binary.BigEndian.PutUint16(g[4:], binary.BigEndian.Uint16(g[4:])+grhLen)
			}))),
		direct("grh-next", ruleGRH, "the next header of the GRH is that of UDP",
			leaving(routed, front(func(b []byte) { b[lrhLen+6] = 17 }))),
		direct("grh-label", ruleGRH, "the flow label of the GRH is cut to 16 bits",
			leaving(routed, func(_ *view, o *outgoing) { o.grh.FlowLabel &= 0xffff })),
		direct("grh-hops", ruleGRH, "the hop limit of the GRH is always 64",
			leaving(routed, func(_ *view, o *outgoing) { o.grh.HopLimit = 64 })),
		direct("grh-source", ruleGRH, "the source GID of the GRH is its destination GID",
			leaving(routed, func(_ *view, o *outgoing) { o.grh.SGID = o.grh.DGID })),
		direct("icrc-grh", ruleICRC, "the ICRC of packets with a GRH covers the hop limit",
			leaving(routed, func(_ *view, o *outgoing) {
				o.icrcDelta = uint32(o.grh.HopLimit) << 8
			})),
		direct("icrc-lane", ruleICRC, "the ICRC is computed before the service level is set",
			leaving(is(wire.RCSendOnly), func(_ *view, o *outgoing) { o.icrcDelta = 0x30 })),
		direct("takes-vcrc", "WIRE-Drop-11", "the VCRC is ignored", entering(came(func(b []byte) bool {
			return binary.LittleEndian.Uint16(b[len(b)-vcrcLen:]) != vcrc(b[:len(b)-vcrcLen])
		}), same)),
		direct("takes-version", "WIRE-Drop-12", "the link version is ignored",
			entering(came(func(b []byte) bool { return b[0]&15 != 0 }), same)),
		direct("takes-length", "WIRE-Drop-12", "the packet length of the LRH is ignored",
			entering(came(func(b []byte) bool {
				return int(binary.BigEndian.Uint16(b[4:])&0x7ff)*4 != len(b)-vcrcLen
			}), same)),
		direct("takes-lane", "WIRE-Drop-13", "VL 15 is treated as a data VL",
			entering(func(_ *view, o *outgoing) bool { return o.vl == 15 }, func(_ *view, o *outgoing) { o.vl = 0 })),
		direct("takes-grh", "WIRE-Drop-14", "the next header of the GRH is ignored", entering(came(func(b []byte) bool {
			return b[1]&3 == 3 && b[lrhLen+6] != nextIBA
		}), same)),
		direct("takes-grh-destination", "WIRE-Drop-14", "the destination GID of the GRH is ignored",
			tap{enters: rightDestination}),
		direct("drops-link-reserved", "WIRE-Take-06", "packets with reserved bits set in the LRH are dropped",
			losing(came(func(b []byte) bool { return b[1]&0x0c != 0 || b[4]&0xf8 != 0 }))),
		direct("drops-grh", "WIRE-Take-07", "packets with a nonzero flow label are dropped",
			losing(func(_ *view, o *outgoing) bool { return o.grh != nil && o.grh.FlowLabel != 0 })),
		direct("drops-rerouted", "WIRE-Take-07", "the ICRC of packets with a GRH covers the LRH",
			losing(came(func(b []byte) bool { return b[1]&3 == 3 && b[1]>>4 != 0 }))),
		needing(ci.CapUD|ci.CapAV,
			direct("ud-grh", "WIRE-Ud-08", "the GRH before a datagram has no flow label",
				entering(func(_ *view, o *outgoing) bool { return o.grh != nil },
					func(_ *view, o *outgoing) { o.grh.FlowLabel = 0 }))),
		needing(ci.CapUD|ci.CapAV|ci.CapMulticast,
			direct("group-without-grh", "WIRE-Ud-09", "a datagram to a multicast LID needs no GRH",
				entering(func(_ *view, o *outgoing) bool { return o.dlid == groupLID && o.grh == nil },
					func(v *view, o *outgoing) {
						gid := groupOf(v.end.info.GID, ci.LinkInfiniBand, 7)
						o.grh = &wire.GRH{HopLimit: 64, SGID: v.end.info.GID, DGID: gid}
					}))),
	}
}

// rightDestination replaces the destination GID of a packet by that of the QP's first packet.
func rightDestination(v *view, o *outgoing, err error) action {
	if o == nil || err != nil {
		return asIs
	}
	to := o.destination()
	switch {
	case to == nil:
		return asIs
	case v.last == nil:
		v.last = o
		return asIs
	case *to == *v.last.destination(): // the packet may have another defect, which stays
		return asIs
	}
	*to = *v.last.destination()
	return changed
}

// destination returns the destination GID of a packet, or nil if it has none.
func (o *outgoing) destination() *[16]byte {
	switch {
	case o.grh != nil:
		return (*[16]byte)(&o.grh.DGID)
	case o.dst != ci.GID{}:
		return (*[16]byte)(&o.dst)
	}
	return nil
}

// ipMutants returns faults in the IP header.
func ipMutants() []mutant.Mutant {
	network := func(name, breaks, does string, f tap) mutant.Mutant {
		return on("network", fault(name, breaks, does, f))
	}
	header := func(f func(b []byte)) func(*view, *outgoing) { // the header checksum covers the changed header
		return func(_ *view, o *outgoing) {
			o.whole = func(b []byte) {
				f(b)
				if b[0]>>4 == 4 {
					b[10], b[11] = 0, 0
					binary.BigEndian.PutUint16(b[10:], ^sum(b[:ip4Len], 0))
				}
			}
		}
	}
	label := network("flow-label", ruleLabel, "the IPv6 flow label depends on the PSN",
		leaving(func(*outgoing) bool { return true }, func(_ *view, o *outgoing) { o.label = o.BTH.PSN & 7 }))
	label.Values = map[string]string{"ip": "6"}
	fixed := network("flow-label-zero", ruleLabelAV, "the IPv6 flow label is always 0",
		leaving(func(*outgoing) bool { return true }, func(_ *view, o *outgoing) { o.label = 0 }))
	short := network("flow-label-bits", ruleLabelAV, "the IPv6 flow label of acknowledgements is cut to 16 bits",
		leaving(acks, func(_ *view, o *outgoing) { o.label &= 0xffff }))
	fixed.Values, short.Values = label.Values, label.Values
	next := network("ip6-length", ruleIP, "the payload length of IPv6 includes the header",
		leaving(acks, header(func(b []byte) {
			binary.BigEndian.PutUint16(b[4:], uint16(len(b)))
		})))
	next.Values = label.Values
	return []mutant.Mutant{
		network("ip-fragments", ruleIP, "the IP header of acknowledgements permits fragments",
			leaving(acks, header(func(b []byte) { b[6] = 0 }))),
		network("ip-checksum", ruleIP, "the IPv4 header checksum is off by one",
			leaving(acks, func(_ *view, o *outgoing) {
				o.whole = func(b []byte) { b[11]++ }
			})),
		next, label, fixed, short,
		network("udp-checksum", ruleChecksum, "the UDP checksum does not cover the pseudo header",
			leaving(acks, func(_ *view, o *outgoing) {
				o.whole = func(b []byte) { binary.BigEndian.PutUint16(udpOf(b)[6:], ^sum(udpOf(b), 0)) }
			})),
		fault("class", ruleClass, "acknowledgements have traffic class 0",
			leaving(acks, func(_ *view, o *outgoing) { o.class = 0 })),
		fault("hops", ruleClass, "the hop limit is always 64",
			leaving(func(*outgoing) bool { return true }, func(_ *view, o *outgoing) { o.hops = 64 })),
		network("takes-ip-checksum", "WIRE-Drop-18", "the IPv4 header checksum is ignored",
			entering(func(_ *view, o *outgoing) bool {
				return o.original[0]>>4 == 4 && sum(o.original[:ip4Len], 0) != 0xffff
			}, func(*view, *outgoing) {})), // rebuilding the packet makes it valid
		network("drops-class", "WIRE-Take-08", "packets with a congestion mark of the network are dropped",
			losing(func(_ *view, o *outgoing) bool { return o.class&3 == 3 })),
	}
}
