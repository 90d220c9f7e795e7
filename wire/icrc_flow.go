package wire

import "encoding/binary"

// Bytes from a length or ID field's two bytes to the end of the UDP header, where Start ends.
var (
	tab4LenHi, tab4LenLo = shiftTable(UDPLen + 17), shiftTable(UDPLen + 16) // IPv4 bytes 2, 3
	tab4IDHi, tab4IDLo   = shiftTable(UDPLen + 15), shiftTable(UDPLen + 14) // IPv4 bytes 4, 5
	tabUDPHi, tabUDPLo   = shiftTable(3), shiftTable(2)                     // UDP bytes 4, 5
	tab6LenHi, tab6LenLo = shiftTable(UDPLen + 35), shiftTable(UDPLen + 34) // IPv6 bytes 4, 5
)

// Flow4 is what the ICRC needs to know of an IPv4 flow; Start adds what differs from packet to packet for a few table look-ups.
// It is a plain value, safe for concurrent use.
type Flow4 struct {
	r uint32 // register after the UDP header with lengths and ID zero, not complemented
}

// NewFlow4 prepares for packets between two addresses and UDP ports, in the direction of the packet. frag is the IPv4 flags and
// fragment offset, IPv4DontFragment for all RoCE senders known to us. The header has no options.
func NewFlow4(src, dst [4]byte, sport, dport, frag uint16) Flow4 {
	h := IPv4{Frag: frag, TTL: 0xff, TOS: 0xff, Checksum: 0xffff, Protocol: ProtocolUDP, Src: src, Dst: dst}
	u := UDP{SrcPort: sport, DstPort: dport, Checksum: 0xffff}
	var b [IPv4Len + UDPLen]byte
	h.Put(b[:])
	u.Put(b[IPv4Len:])
	return Flow4{headerCRC(^uint32(icrcOnes), b[:])}
}

// Start gives the ICRC up to the UDP header's end for a packet whose transport part, BTH to ICRC inclusive, has n bytes, with the
// IPv4 identification id. The UDP datagram must fit IPv4: n at most 65507.
func (f Flow4) Start(n int, id uint16) ICRC {
	u := uint16(n + UDPLen)
	t := uint16(n + UDPLen + IPv4Len)
	return ICRC(^(f.r ^ tab4LenHi[t>>8] ^ tab4LenLo[byte(t)] ^ tab4IDHi[id>>8] ^ tab4IDLo[byte(id)] ^
		tabUDPHi[u>>8] ^ tabUDPLo[byte(u)]))
}

// Check tells whether the ICRC at the end of the transport packet b (BTH to ICRC) is right when the receiver cannot know the IPv4
// identification, as on a UDP socket, and which identification makes it so; see SolveIPv4ID for what is left of the check.
func (f Flow4) Check(b []byte) (id uint16, ok bool) {
	end := len(b) - ICRCLen
	if end < BTHLen || end%4 != 0 {
		return 0, false
	}
	return SolveIPv4ID(uint32(f.Start(len(b), 0).Transport(b[:end])), binary.LittleEndian.Uint32(b[end:]), end)
}

// Flow6 is Flow4 for IPv6.
type Flow6 struct {
	r uint32
}

// NewFlow6 prepares for packets between two addresses and UDP ports, in the direction of the packet. There are no extension headers.
func NewFlow6(src, dst [16]byte, sport, dport uint16) Flow6 {
	h := IPv6{TrafficClass: 0xff, FlowLabel: 0xfffff, HopLimit: 0xff, NextHeader: ProtocolUDP, Src: src, Dst: dst}
	u := UDP{SrcPort: sport, DstPort: dport, Checksum: 0xffff}
	var b [IPv6Len + UDPLen]byte
	h.Put(b[:])
	u.Put(b[IPv6Len:])
	return Flow6{headerCRC(^uint32(icrcOnes), b[:])}
}

// Start gives the ICRC up to the UDP header's end for a packet whose transport part, BTH to ICRC inclusive, has n bytes, at most
// 65527.
func (f Flow6) Start(n int) ICRC {
	u := uint16(n + UDPLen) // both length fields of a packet without extension headers
	return ICRC(^(f.r ^ tab6LenHi[u>>8] ^ tab6LenLo[byte(u)] ^ tabUDPHi[u>>8] ^ tabUDPLo[byte(u)]))
}

// Check tells whether the ICRC at the end of the transport packet b (BTH to ICRC) is right.
func (f Flow6) Check(b []byte) bool {
	end := len(b) - ICRCLen
	if end < BTHLen || end%4 != 0 {
		return false
	}
	return uint32(f.Start(len(b)).Transport(b[:end])) == binary.LittleEndian.Uint32(b[end:])
}
