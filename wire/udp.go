package wire

import "encoding/binary"

// RoCEv2Port is the UDP destination port of RoCEv2 (annex A17; registered with IANA).
const RoCEv2Port = 4791

// UDP is a UDP header (RFC 768).
type UDP struct {
	SrcPort  uint16 // bytes 0-1
	DstPort  uint16 // bytes 2-3
	Length   uint16 // bytes 4-5: header and payload, bytes
	Checksum uint16 // bytes 6-7: 0 is none; RoCEv2 senders use 0 over IPv4, and often over IPv6
}

// Put writes the header to b[:UDPLen]. It panics if b is shorter. It does not compute the checksum.
func (h *UDP) Put(b []byte) {
	_ = b[UDPLen-1]
	binary.BigEndian.PutUint16(b, h.SrcPort)
	binary.BigEndian.PutUint16(b[2:], h.DstPort)
	binary.BigEndian.PutUint16(b[4:], h.Length)
	binary.BigEndian.PutUint16(b[6:], h.Checksum)
}

// Parse reads the header from the start of b, an IP payload. Errors: ErrShort, and ErrLength for a length that does not
// fit b. It does not check the ports and the checksum.
func (h *UDP) Parse(b []byte) error {
	if len(b) < UDPLen {
		return errorf(ErrShort, "%d bytes, want at least %d for a UDP header", len(b), UDPLen)
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

// UDPChecksum4 returns the checksum of a UDP datagram (header and payload) between IPv4 addresses. The checksum field
// of the datagram must be 0. The result is never 0, which would mean that there is no checksum.
func UDPChecksum4(src, dst [4]byte, datagram []byte) uint16 {
	return sentChecksum(udpSum(sum16(sum16(0, src[:]), dst[:]), datagram))
}

// UDPChecksum6 is like UDPChecksum4 for IPv6.
func UDPChecksum6(src, dst [16]byte, datagram []byte) uint16 {
	return sentChecksum(udpSum(sum16(sum16(0, src[:]), dst[:]), datagram))
}

// CheckUDP4 reports whether the checksum of a UDP datagram (header and payload) is correct or absent (0). It returns
// false for a datagram that is shorter than the header.
func CheckUDP4(src, dst [4]byte, datagram []byte) bool {
	return checkUDP(sum16(sum16(0, src[:]), dst[:]), datagram)
}

// CheckUDP6 is like CheckUDP4 for IPv6. It accepts checksum 0, which RFC 8200 forbids, because RoCEv2 senders rely on
// the ICRC (annex A17, RFC 6935).
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
