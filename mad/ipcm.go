package mad

import "net/netip"

// IPCMLen is the length of the header that RDMA CM puts before the private data of REQ and SIDR_REQ, in bytes.
const IPCMLen = 36

// What IPCM leaves of the private data, in bytes.
const (
	REQConsumerLen     = REQPrivateLen - IPCMLen
	SIDRREQConsumerLen = SIDRREQPrivateLen - IPCMLen
)

// IPCM is the header of annex A11: who calls whom in terms of IP. The destination's port stands in the service ID.
//
//	byte 0      major version 4, minor version 4: both 0
//	byte 1      IP version 4, reserved 4
//	byte 2:2    source port
//	byte 4:16   source address; of IPv4 in the last four bytes, the others 0
//	byte 20:16  destination address, likewise
type IPCM struct {
	MajorVersion uint8 // four bits
	MinorVersion uint8 // four bits
	IPVersion    uint8 // four bits: 4 or 6
	ReservedIP   uint8 // four bits
	SourcePort   uint16
	Source       [16]byte
	Destination  [16]byte
}

// NewIPCM makes the header. IPv6 zones are left out: they mean something on one machine only.
//
// Errors: ErrAddress if an address is missing or one is IPv4 and the other IPv6; an IPv4 address in an IPv6 one counts as IPv4.
func NewIPCM(source netip.AddrPort, destination netip.Addr) (IPCM, error) {
	src, dst := source.Addr().Unmap(), destination.Unmap()
	h := IPCM{IPVersion: 6, SourcePort: source.Port()}
	switch {
	case !src.IsValid():
		return IPCM{}, errorf(ErrAddress, "IPCM", "Source", "no address")
	case !dst.IsValid():
		return IPCM{}, errorf(ErrAddress, "IPCM", "Destination", "no address")
	case src.Is4() != dst.Is4():
		return IPCM{}, errorf(ErrAddress, "IPCM", "Destination", "%v, not of the same IP version as the source %v", dst, src)
	case src.Is4():
		h.IPVersion = 4
		*(*[4]byte)(h.Source[12:]), *(*[4]byte)(h.Destination[12:]) = src.As4(), dst.As4()
	default:
		h.Source, h.Destination = src.As16(), dst.As16()
	}
	return h, nil
}

// ParseIPCM takes the header off the private data of a REQ or SIDR_REQ and gives what follows it, a part of its argument.
//
// Errors: ErrLength below IPCMLen bytes; ErrVersion for another major version than 0 and for IP versions other than 4 and 6; ErrAddress if
// one of two IPv6 addresses stands for an IPv4 one (RFC 4291, 2.5.5.2) and the other does not. Reserved bits, minor version and the twelve
// bytes before an IPv4 address are not judged.
func ParseIPCM(private []byte) (h IPCM, rest []byte, err error) {
	if len(private) < IPCMLen {
		return h, nil, errorf(ErrLength, "IPCM", "private data", "%d bytes, the header has %d", len(private), IPCMLen)
	}
	h.Parse(private)
	switch {
	case h.MajorVersion != 0:
		return h, nil, errorf(ErrVersion, "IPCM", "MajorVersion", "%d, want 0", h.MajorVersion)
	case h.IPVersion != 4 && h.IPVersion != 6:
		return h, nil, errorf(ErrVersion, "IPCM", "IPVersion", "%d, want 4 or 6", h.IPVersion)
	}
	if src, dst := h.addr(h.Source), h.addr(h.Destination); src.Is4() != dst.Is4() {
		return h, nil, errorf(ErrAddress, "IPCM", "Destination", "%v, not of the same IP version as the source %v", dst, src)
	}
	return h, private[IPCMLen:], nil
}

// SetIPCM makes header and consumer data the private data of m, a REQ or SIDR_REQ.
//
// Errors: ErrAttribute for other messages, ErrLength for more data than REQConsumerLen or SIDRREQConsumerLen, those of h.Check; m is
// then as it was.
func SetIPCM(m CMMessage, h *IPCM, data []byte) error {
	if a := m.Attribute(); a != AttrREQ && a != AttrSIDRREQ {
		return errorf(ErrAttribute, "IPCM", "message", "%s has no such header", AttributeName(ClassCM, a))
	}
	if err := h.Check(); err != nil {
		return err
	}
	p := m.Private()
	if room := len(p) - IPCMLen; len(data) > room {
		return errorf(ErrLength, AttributeName(ClassCM, m.Attribute()), "PrivateData", "%d bytes behind the IP CM header, room for %d", len(data), room)
	}
	h.Put(p)
	clear(p[IPCMLen+copy(p[IPCMLen:], data):])
	return nil
}

// SourceAddr is who calls. An IPv4 address in an IPv6 one counts as IPv4.
func (h *IPCM) SourceAddr() netip.AddrPort {
	return netip.AddrPortFrom(h.addr(h.Source), h.SourcePort)
}

// DestinationAddr is who is called, likewise.
func (h *IPCM) DestinationAddr() netip.Addr { return h.addr(h.Destination) }

func (h *IPCM) addr(a [16]byte) netip.Addr {
	if h.IPVersion == 4 {
		return netip.AddrFrom4([4]byte(a[12:]))
	}
	return netip.AddrFrom16(a).Unmap()
}

// Put writes the header to b[:IPCMLen]; b must be that long.
func (h *IPCM) Put(b []byte) {
	_ = b[IPCMLen-1]
	b[0], b[1] = h.MajorVersion<<4|h.MinorVersion&15, h.IPVersion<<4|h.ReservedIP&15
	be.PutUint16(b[2:], h.SourcePort)
	copy(b[4:20], h.Source[:])
	copy(b[20:36], h.Destination[:])
}

// Parse reads the header from b[:IPCMLen]; b must be that long.
func (h *IPCM) Parse(b []byte) {
	_ = b[IPCMLen-1]
	*h = IPCM{MajorVersion: b[0] >> 4, MinorVersion: b[0] & 15, IPVersion: b[1] >> 4, ReservedIP: b[1] & 15,
		SourcePort: be.Uint16(b[2:]), Source: [16]byte(b[4:20]), Destination: [16]byte(b[20:36])}
}

// Check returns an *Error that names the first field that no sender may send so: ErrRange, ErrVersion, ErrReserved, and ErrAddress for
// bytes before an IPv4 address that are not zero, and for two addresses of which one is IPv4's.
func (h *IPCM) Check() error {
	c := checker{layout: "IPCM"}
	c.within("MajorVersion", uint64(h.MajorVersion), 0, 0)
	c.within("MinorVersion", uint64(h.MinorVersion), 0, 0)
	if h.IPVersion != 4 && h.IPVersion != 6 {
		c.fail(ErrVersion, "IPVersion", "%d, want 4 or 6", h.IPVersion)
	}
	c.zero("ReservedIP", uint64(h.ReservedIP))
	if h.IPVersion == 4 {
		if [12]byte(h.Source[:12]) != [12]byte{} {
			c.fail(ErrAddress, "Source", "% x, want an IPv4 address behind zeros", h.Source)
		}
		if [12]byte(h.Destination[:12]) != [12]byte{} {
			c.fail(ErrAddress, "Destination", "% x, want an IPv4 address behind zeros", h.Destination)
		}
	}
	if src, dst := h.addr(h.Source), h.addr(h.Destination); src.Is4() != dst.Is4() {
		c.fail(ErrAddress, "Destination", "%v, not of the same IP version as the source %v", dst, src)
	}
	return c.err
}
