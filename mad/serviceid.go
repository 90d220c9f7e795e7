package mad

import "fmt"

// ServiceID names a service of the communication manager (12.7.3, annex A3).
type ServiceID uint64

// Matches tells whether a listener for id under mask answers to s: the bits of the mask are compared. A mask of all ones is an exact
// listener, 0 answers to everything.
func (s ServiceID) Matches(id, mask ServiceID) bool { return (s^id)&mask == 0 }

// ServiceIDExact is the mask of a listener for one ID.
const ServiceIDExact = ^ServiceID(0)

// ServiceIDLocal and ServiceIDLocalMask are the range that the operating system hands out: first byte 2 (annex A3).
const (
	ServiceIDLocal     ServiceID = 0x02 << 56
	ServiceIDLocalMask ServiceID = 0xff << 56
)

// PortSpace is a range of 65536 service IDs, one per port (annex A11): 1 in the upper byte, in the lower the IP protocol whose ports
// these are.
type PortSpace uint16

// Port spaces of RDMA CM.
const (
	PortSpaceTCP PortSpace = 0x0106
	PortSpaceUDP PortSpace = 0x0111
	PortSpaceIB  PortSpace = 0x013f
)

// PortSpaceMask selects the port space of a service ID: with it, a listener answers to all its ports.
const PortSpaceMask = ^ServiceID(0xffff)

// ServiceID gives the ID of a port.
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

// Port gives the port space and port of an ID, and false for IDs outside annex A11's range, those that begin with the bytes 00 00 00 00 01.
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
