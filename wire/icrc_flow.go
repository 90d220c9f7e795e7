package wire

import "encoding/binary"

// Contributions of the bytes of the length and ID fields to the register at the end of the UDP header.
var (
	tab4LenHi, tab4LenLo = shiftTable(UDPLen + 17), shiftTable(UDPLen + 16) // IPv4 bytes 2, 3
	tab4IDHi, tab4IDLo   = shiftTable(UDPLen + 15), shiftTable(UDPLen + 14) // IPv4 bytes 4, 5
	tabUDPHi, tabUDPLo   = shiftTable(3), shiftTable(2)                     // UDP bytes 4, 5
	tab6LenHi, tab6LenLo = shiftTable(UDPLen + 35), shiftTable(UDPLen + 34) // IPv6 bytes 4, 5
)

// Flow4 is the part of the ICRC that is the same for all packets of an IPv4 flow. Start adds the fields that differ,
// with a few table lookups. A Flow4 is immutable, and safe for concurrent use.
type Flow4 struct {
	r uint32 // register at the end of the UDP header for zero lengths and ID, not complemented
}

// NewFlow4 returns the Flow4 of packets from src and sport to dst and dport, without IPv4 options. frag is the field of
// IPv4 flags and fragment offset; all known RoCE senders use IPv4DontFragment.
func NewFlow4(src, dst [4]byte, sport, dport, frag uint16) Flow4 {
	h := IPv4{Frag: frag, TTL: 0xff, TOS: 0xff, Checksum: 0xffff, Protocol: ProtocolUDP, Src: src, Dst: dst}
	u := UDP{SrcPort: sport, DstPort: dport, Checksum: 0xffff}
	var b [IPv4Len + UDPLen]byte
	h.Put(b[:])
	u.Put(b[IPv4Len:])
	return Flow4{headerCRC(^uint32(icrcOnes), b[:])}
}

// Start returns the ICRC of the headers up to the end of the UDP header, for a packet of n bytes from the BTH to the
// end of the ICRC and the IPv4 identification id. n must be at most 65507, the largest UDP payload over IPv4.
func (f Flow4) Start(n int, id uint16) ICRC {
	u := uint16(n + UDPLen)
	t := uint16(n + UDPLen + IPv4Len)
	return ICRC(^(f.r ^ tab4LenHi[t>>8] ^ tab4LenLo[byte(t)] ^ tab4IDHi[id>>8] ^ tab4IDLo[byte(id)] ^
		tabUDPHi[u>>8] ^ tabUDPLo[byte(u)]))
}

// Check reports whether some IPv4 identification makes the ICRC at the end of the transport packet b (BTH to ICRC)
// correct, and returns it. It is for receivers that do not see the identification, such as UDP sockets. SolveIPv4ID
// explains what the check can detect.
func (f Flow4) Check(b []byte) (id uint16, ok bool) {
	end := len(b) - ICRCLen
	if end < BTHLen || end%4 != 0 {
		return 0, false
	}
	return SolveIPv4ID(uint32(f.Start(len(b), 0).Transport(b[:end])), binary.LittleEndian.Uint32(b[end:]), end)
}

// Flow6 is like Flow4 for IPv6.
type Flow6 struct {
	r uint32 // register at the end of the UDP header for zero lengths, not complemented
}

// NewFlow6 returns the Flow6 of packets from src and sport to dst and dport, without extension headers.
func NewFlow6(src, dst [16]byte, sport, dport uint16) Flow6 {
	h := IPv6{TrafficClass: 0xff, FlowLabel: 0xfffff, HopLimit: 0xff, NextHeader: ProtocolUDP, Src: src, Dst: dst}
	u := UDP{SrcPort: sport, DstPort: dport, Checksum: 0xffff}
	var b [IPv6Len + UDPLen]byte
	h.Put(b[:])
	u.Put(b[IPv6Len:])
	return Flow6{headerCRC(^uint32(icrcOnes), b[:])}
}

// Start returns the ICRC of the headers up to the end of the UDP header, for a packet of n bytes from the BTH to the
// end of the ICRC. n must be at most 65527.
func (f Flow6) Start(n int) ICRC {
	u := uint16(n + UDPLen) // the length in both headers
	return ICRC(^(f.r ^ tab6LenHi[u>>8] ^ tab6LenLo[byte(u)] ^ tabUDPHi[u>>8] ^ tabUDPLo[byte(u)]))
}

// Check reports whether the ICRC at the end of the transport packet b (BTH to ICRC) is correct.
func (f Flow6) Check(b []byte) bool {
	end := len(b) - ICRCLen
	if end < BTHLen || end%4 != 0 {
		return false
	}
	return uint32(f.Start(len(b)).Transport(b[:end])) == binary.LittleEndian.Uint32(b[end:])
}
