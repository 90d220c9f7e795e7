package mad

import "fmt"

// ServiceID identifies a service of the communication manager (12.7.3, annex A3).
type ServiceID uint64

// Matches reports whether s matches a listener for id with mask: s and id are equal in the bits of mask. ServiceIDExact
// matches one ID, and a mask of 0 matches every ID.
func (s ServiceID) Matches(id, mask ServiceID) bool { return (s^id)&mask == 0 }

// ServiceIDExact is the mask of a listener for a single ID.
const ServiceIDExact = ^ServiceID(0)

// ServiceIDLocal and ServiceIDLocalMask describe the IDs that the operating system assigns. Their first byte is 2
// (annex A3).
const (
	ServiceIDLocal     ServiceID = 0x02 << 56
	ServiceIDLocalMask ServiceID = 0xff << 56
)

// PortSpace is a range of 65536 service IDs, one per port (annex A11). The upper byte is 1, and the lower byte is the
// IP protocol to which the ports belong.
type PortSpace uint16

// Port spaces of RDMA CM.
const (
	PortSpaceTCP PortSpace = 0x0106
	PortSpaceUDP PortSpace = 0x0111
	PortSpaceIB  PortSpace = 0x013f
)

// PortSpaceMask is the mask of a listener for all ports of a port space.
const PortSpaceMask = ^ServiceID(0xffff)

// ServiceID returns the service ID of a port.
func (p PortSpace) ServiceID(port uint16) ServiceID { return ServiceID(p)<<16 | ServiceID(port) }

func (p PortSpace) String() string {
	switch p {
	case PortSpaceTCP:
		return "TCP"
	case PortSpaceUDP:
		return "UDP"
	case PortSpaceIB:
		return "IB"
	}
	return fmt.Sprintf("PortSpace(%#04x)", uint16(p))
}

// Port returns the port space and the port of an ID. It returns false for an ID that is not of annex A11, that is, one
// that does not begin with the bytes 00 00 00 00 01.
func (s ServiceID) Port() (p PortSpace, port uint16, ok bool) {
	if s>>24 != 1 {
		return 0, 0, false
	}
	return PortSpace(s >> 16), uint16(s), true
}

func (s ServiceID) String() string {
	if p, port, ok := s.Port(); ok {
		return fmt.Sprintf("%#016x (%v port %d)", uint64(s), p, port)
	}
	return fmt.Sprintf("%#016x", uint64(s))
}
