package mad

import "net/netip"

// IPCMLen is the length of the header that RDMA CM puts before the private data of REQ and SIDR_REQ, in bytes.
const IPCMLen = 36

// Lengths of the private data that remain for the consumer, in bytes.
const (
	REQConsumerLen     = REQPrivateLen - IPCMLen
	SIDRREQConsumerLen = SIDRREQPrivateLen - IPCMLen
)

// IPCM is the header of the RDMA IP CM service (annex A11). It carries the IP addresses of both ends and the source
// port. The service ID carries the destination port.
type IPCM struct {
	MajorVersion uint8    // byte 0, bits 7-4: 0
	MinorVersion uint8    // byte 0, bits 3-0: 0
	IPVersion    uint8    // byte 1, bits 7-4: 4 or 6
	ReservedIP   uint8    // byte 1, bits 3-0
	SourcePort   uint16   // bytes 2-3
	Source       [16]byte // bytes 4-19: an IPv4 address is in the last four bytes, after zeros
	Destination  [16]byte // bytes 20-35: as Source
}

// NewIPCM returns the header for two addresses. It omits IPv6 zones, which have a meaning only on the local machine. An
// IPv4-mapped IPv6 address counts as IPv4.
//
// Errors: ErrAddress if an address is missing, or if one address is IPv4 and the other IPv6.
func NewIPCM(source netip.AddrPort, destination netip.Addr) (IPCM, error) {
	src, dst := source.Addr().Unmap(), destination.Unmap()
	h := IPCM{IPVersion: 6, SourcePort: source.Port()}
	switch {
	case !src.IsValid():
		return IPCM{}, errorf(ErrAddress, "IPCM", "Source", "no address")
	case !dst.IsValid():
		return IPCM{}, errorf(ErrAddress, "IPCM", "Destination", "no address")
	case src.Is4() != dst.Is4():
		return IPCM{}, errorf(ErrAddress, "IPCM", "Destination", "%v is not of the same IP version as the source %v",
			dst,
			src)
	case src.Is4():
		h.IPVersion = 4
		*(*[4]byte)(h.Source[12:]), *(*[4]byte)(h.Destination[12:]) = src.As4(), dst.As4()
	default:
		h.Source, h.Destination = src.As16(), dst.As16()
	}
	return h, nil
}

// ParseIPCM parses the header at the start of the private data of a REQ or SIDR_REQ, and returns the rest of the
// private data as a subslice. It ignores reserved bits, the minor version and the twelve bytes before an IPv4 address.
//
// Errors: ErrLength for less than IPCMLen bytes; ErrVersion for a major version other than 0 and an IP version other
// than 4 or 6; ErrAddress if one of two IPv6 addresses is IPv4-mapped (RFC 4291, 2.5.5.2) and the other is not.
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
		return h, nil, errorf(ErrAddress, "IPCM", "Destination", "%v is not of the same IP version as the source %v",
			dst,
			src)
	}
	return h, private[IPCMLen:], nil
}

// SetIPCM sets the private data of m, a REQ or SIDR_REQ, to the header and the consumer's data.
//
// Errors: ErrAttribute for other messages; ErrLength for more data than REQConsumerLen or SIDRREQConsumerLen; those of
// h.Check. SetIPCM then leaves m unchanged.
func SetIPCM(m CMMessage, h *IPCM, data []byte) error {
	if a := m.Attribute(); a != AttrREQ && a != AttrSIDRREQ {
		return errorf(ErrAttribute, "IPCM", "message", "%s has no IP CM header", AttributeName(ClassCM, a))
	}
	if err := h.Check(); err != nil {
		return err
	}
	p := m.Private()
	if room := len(p) - IPCMLen; len(data) > room {
		return errorf(ErrLength, AttributeName(ClassCM, m.Attribute()), "PrivateData",
			"%d bytes after the IP CM header, at most %d fit", len(data), room)
	}
	h.Put(p)
	clear(p[IPCMLen+copy(p[IPCMLen:], data):])
	return nil
}

// SourceAddr returns the address and port of the active side. It returns an IPv4-mapped IPv6 address as IPv4.
func (h *IPCM) SourceAddr() netip.AddrPort {
	return netip.AddrPortFrom(h.addr(h.Source), h.SourcePort)
}

// DestinationAddr returns the address of the passive side, like SourceAddr.
func (h *IPCM) DestinationAddr() netip.Addr { return h.addr(h.Destination) }

func (h *IPCM) addr(a [16]byte) netip.Addr {
	if h.IPVersion == 4 {
		return netip.AddrFrom4([4]byte(a[12:]))
	}
	return netip.AddrFrom16(a).Unmap()
}

// Put writes the header to b[:IPCMLen]. It panics if b is shorter.
func (h *IPCM) Put(b []byte) {
	_ = b[IPCMLen-1]
	b[0], b[1] = h.MajorVersion<<4|h.MinorVersion&15, h.IPVersion<<4|h.ReservedIP&15
	be.PutUint16(b[2:], h.SourcePort)
	copy(b[4:20], h.Source[:])
	copy(b[20:36], h.Destination[:])
}

// Parse reads the header from b[:IPCMLen]. It panics if b is shorter.
func (h *IPCM) Parse(b []byte) {
	_ = b[IPCMLen-1]
	*h = IPCM{MajorVersion: b[0] >> 4, MinorVersion: b[0] & 15, IPVersion: b[1] >> 4, ReservedIP: b[1] & 15,
		SourcePort: be.Uint16(b[2:]), Source: [16]byte(b[4:20]), Destination: [16]byte(b[20:36])}
}

// Check returns an *Error for the first field that a sender must not send with its value: ErrRange, ErrVersion,
// ErrReserved, and ErrAddress if bytes before an IPv4 address are not zero or only one of two addresses is IPv4.
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
			c.fail(ErrAddress, "Source", "% x, want 12 zero bytes and an IPv4 address", h.Source)
		}
		if [12]byte(h.Destination[:12]) != [12]byte{} {
			c.fail(ErrAddress, "Destination", "% x, want 12 zero bytes and an IPv4 address", h.Destination)
		}
	}
	if src, dst := h.addr(h.Source), h.addr(h.Destination); src.Is4() != dst.Is4() {
		c.fail(ErrAddress, "Destination", "%v is not of the same IP version as the source %v", dst, src)
	}
	return c.err
}
