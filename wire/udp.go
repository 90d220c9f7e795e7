package wire

import "encoding/binary"

// RoCEv2Port is the UDP destination port of RoCEv2 (annex A17; registered with IANA).
const RoCEv2Port = 4791

// UDP is a UDP header (RFC 768).
type UDP struct {
	SrcPort, DstPort uint16
	Length           uint16 // header and payload, bytes
	Checksum         uint16 // 0: none; RoCEv2 senders leave it 0 on IPv4 and often on IPv6
}

// Put writes the header to b[:UDPLen]; b must be that long. The checksum is written as it stands.
func (h *UDP) Put(b []byte) {
	_ = b[UDPLen-1]
	binary.BigEndian.PutUint16(b, h.SrcPort)
	binary.BigEndian.PutUint16(b[2:], h.DstPort)
	binary.BigEndian.PutUint16(b[4:], h.Length)
	binary.BigEndian.PutUint16(b[6:], h.Checksum)
}

// Parse reads the header from the start of b, an IP payload. Errors: ErrShort, and ErrLength for a length that does not fit b.
// Neither port nor checksum is judged.
func (h *UDP) Parse(b []byte) error {
	if len(b) < UDPLen {
		return errorf(ErrShort, "%d bytes, a UDP header has %d", len(b), UDPLen)
	}
	h.SrcPort = binary.BigEndian.Uint16(b)
	h.DstPort = binary.BigEndian.Uint16(b[2:])
	h.Length = binary.BigEndian.Uint16(b[4:])
	h.Checksum = binary.BigEndian.Uint16(b[6:])
	if int(h.Length) < UDPLen || int(h.Length) > len(b) {
		return errorf(ErrLength, "UDP length %d in %d bytes", h.Length, len(b))
	}
	return nil
}

// UDPChecksum4 gives the checksum of a UDP datagram, header and payload, between IPv4 addresses, for a header whose checksum field
// is 0 so far. It is never 0: that means none.
func UDPChecksum4(src, dst [4]byte, datagram []byte) uint16 {
	return sentChecksum(udpSum(sum16(sum16(0, src[:]), dst[:]), datagram))
}

// UDPChecksum6 is UDPChecksum4 for IPv6.
func UDPChecksum6(src, dst [16]byte, datagram []byte) uint16 {
	return sentChecksum(udpSum(sum16(sum16(0, src[:]), dst[:]), datagram))
}

// CheckUDP4 tells whether the checksum in a UDP datagram, header and payload, is right or absent (0). It is false for a datagram
// without a whole header.
func CheckUDP4(src, dst [4]byte, datagram []byte) bool {
	return checkUDP(sum16(sum16(0, src[:]), dst[:]), datagram)
}

// CheckUDP6 is CheckUDP4 for IPv6. Although RFC 8200 forbids it, 0 passes: RoCEv2 senders rely on the ICRC (A17, RFC 6935).
func CheckUDP6(src, dst [16]byte, datagram []byte) bool {
	return checkUDP(sum16(sum16(0, src[:]), dst[:]), datagram)
}

func checkUDP(addresses uint64, datagram []byte) bool {
	if len(datagram) < UDPLen {
		return false
	}
	if datagram[6] == 0 && datagram[7] == 0 {
		return true
	}
	return foldSum(udpSum(addresses, datagram)) == 0
}

func udpSum(addresses uint64, datagram []byte) uint64 {
	return sum16(addresses+ProtocolUDP+uint64(len(datagram)), datagram)
}

func sentChecksum(s uint64) uint16 {
	if c := foldSum(s); c != 0 {
		return c
	}
	return 0xffff
}
