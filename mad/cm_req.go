package mad

import "fmt"

// TransportService is the transport service of a requested connection. It has two bits.
type TransportService uint8

// Transport services (12.6.5).
const (
	ServiceRC       TransportService = 0
	ServiceUC       TransportService = 1
	ServiceRD       TransportService = 2
	ServiceExtended TransportService = 3 // REQ.ExtendedService has the service
)

func (t TransportService) String() string {
	switch t {
	case ServiceRC:
		return "RC"
	case ServiceUC:
		return "UC"
	case ServiceRD:
		return "RD"
	case ServiceExtended:
		return "extended"
	}
	return fmt.Sprintf("TransportService(%d)", uint8(t))
}

// ExtendedXRC in REQ.ExtendedService is XRC, the only extended transport service.
const ExtendedXRC = 1

// REQ requests a connection (12.6.5, table 106).
type REQ struct {
	LocalCommID     uint32              // bytes 0-3
	Reserved4       uint8               // byte 4
	VendorID        uint32              // bytes 5-7: reserved before release 1.3
	ServiceID       ServiceID           // bytes 8-15
	LocalCAGUID     uint64              // bytes 16-23
	Reserved24      uint32              // bytes 24-27
	LocalQKey       uint32              // bytes 28-31: RD only
	LocalQPN        uint32              // bytes 32-34
	ResponderRes    uint8               // byte 35: RDMA READs and atomics that the sender accepts at a time
	LocalEECN       uint32              // bytes 36-38: RD only
	InitiatorDepth  uint8               // byte 39: RDMA READs and atomics that the sender will have outstanding
	RemoteEECN      uint32              // bytes 40-42: RD only
	RemoteTimeout   TimeExp             // byte 43, bits 7-3: remote CM response timeout
	Service         TransportService    // byte 43, bits 2-1
	FlowControl     bool                // byte 43, bit 0: the sender implements end-to-end flow control
	StartingPSN     uint32              // bytes 44-46: PSN of the first packet from the peer to LocalQPN (12.7.31)
	LocalTimeout    TimeExp             // byte 47, bits 7-3: local CM response timeout
	RetryCount      uint8               // byte 47, bits 2-0
	PKey            uint16              // bytes 48-49
	PathMTU         MTU                 // byte 50, bits 7-4
	RDCExists       bool                // byte 50, bit 3: RD only
	RNRRetryCount   uint8               // byte 50, bits 2-0
	MaxCMRetries    uint8               // byte 51, bits 7-4
	SRQ             bool                // byte 51, bit 3: the sender's QP uses an SRQ
	ExtendedService uint8               // byte 51, bits 2-0: ExtendedXRC, with ServiceExtended
	Primary         CMPath              // bytes 52-95
	Alternate       CMPath              // bytes 96-139: zero without an alternate path; see HasAlternate
	PrivateData     [REQPrivateLen]byte // bytes 140-231
}

// HasAlternate reports whether the REQ offers an alternate path. Without one, Alternate is zero (12.6.5).
func (m *REQ) HasAlternate() bool { return m.Alternate.LocalLID != 0 }

// Attribute implements CMMessage.
func (*REQ) Attribute() uint16 { return AttrREQ }

// Private implements CMMessage.
func (m *REQ) Private() []byte { return m.PrivateData[:] }

// Put implements CMMessage.
func (m *REQ) Put(b []byte) {
	_ = b[CMDataLen-1]
	be.PutUint32(b, m.LocalCommID)
	b[4] = m.Reserved4
	put24(b[5:], m.VendorID)
	be.PutUint64(b[8:], uint64(m.ServiceID))
	be.PutUint64(b[16:], m.LocalCAGUID)
	be.PutUint32(b[24:], m.Reserved24)
	be.PutUint32(b[28:], m.LocalQKey)
	put24(b[32:], m.LocalQPN)
	b[35] = m.ResponderRes
	put24(b[36:], m.LocalEECN)
	b[39] = m.InitiatorDepth
	put24(b[40:], m.RemoteEECN)
	b[43] = uint8(m.RemoteTimeout)<<3 | uint8(m.Service&3)<<1 | bit(m.FlowControl)
	put24(b[44:], m.StartingPSN)
	b[47] = uint8(m.LocalTimeout)<<3 | m.RetryCount&7
	be.PutUint16(b[48:], m.PKey)
	b[50] = uint8(m.PathMTU)<<4 | bit(m.RDCExists)<<3 | m.RNRRetryCount&7
	b[51] = m.MaxCMRetries<<4 | bit(m.SRQ)<<3 | m.ExtendedService&7
	m.Primary.put(b[52:])
	m.Alternate.put(b[52+cmPathLen:])
	copy(b[140:CMDataLen], m.PrivateData[:])
}

// Parse implements CMMessage.
func (m *REQ) Parse(b []byte) {
	_ = b[CMDataLen-1]
	*m = REQ{
		LocalCommID: be.Uint32(b), Reserved4: b[4], VendorID: get24(b[5:]), ServiceID: ServiceID(be.Uint64(b[8:])),
		LocalCAGUID: be.Uint64(b[16:]), Reserved24: be.Uint32(b[24:]), LocalQKey: be.Uint32(b[28:]),
		LocalQPN:     get24(b[32:]),
		ResponderRes: b[35], LocalEECN: get24(b[36:]), InitiatorDepth: b[39], RemoteEECN: get24(b[40:]),
		RemoteTimeout: TimeExp(b[43] >> 3), Service: TransportService(b[43] >> 1 & 3), FlowControl: b[43]&1 != 0,
		StartingPSN: get24(b[44:]), LocalTimeout: TimeExp(b[47] >> 3), RetryCount: b[47] & 7, PKey: be.Uint16(b[48:]),
		PathMTU: MTU(b[50] >> 4), RDCExists: b[50]&8 != 0, RNRRetryCount: b[50] & 7,
		MaxCMRetries: b[51] >> 4, SRQ: b[51]&8 != 0, ExtendedService: b[51] & 7,
		PrivateData: [REQPrivateLen]byte(b[140:CMDataLen]),
	}
	m.Primary.parse(b[52:])
	m.Alternate.parse(b[52+cmPathLen:])
}

// Check implements CMMessage.
func (m *REQ) Check() error {
	c := checker{layout: "REQ"}
	c.zero("Reserved4", uint64(m.Reserved4))
	c.fits("VendorID", uint64(m.VendorID), 24)
	c.zero("Reserved24", uint64(m.Reserved24))
	c.fits("LocalQPN", uint64(m.LocalQPN), 24)
	c.fits("LocalEECN", uint64(m.LocalEECN), 24)
	c.fits("RemoteEECN", uint64(m.RemoteEECN), 24)
	c.fits("RemoteTimeout", uint64(m.RemoteTimeout), 5)
	c.fits("Service", uint64(m.Service), 2)
	c.fits("StartingPSN", uint64(m.StartingPSN), 24)
	c.fits("LocalTimeout", uint64(m.LocalTimeout), 5)
	c.fits("RetryCount", uint64(m.RetryCount), 3)
	c.within("PathMTU", uint64(m.PathMTU), uint64(MTU256), uint64(MTU4096))
	c.fits("RNRRetryCount", uint64(m.RNRRetryCount), 3)
	c.fits("MaxCMRetries", uint64(m.MaxCMRetries), 4)
	c.fits("ExtendedService", uint64(m.ExtendedService), 3)
	m.Primary.check(&c, "Primary.")
	m.Alternate.check(&c, "Alternate.")
	return c.err
}
