package mad

import "fmt"

// TransportService is the transport that a REQ asks for, two bits.
type TransportService uint8

// Transport services (12.6.5).
const (
	ServiceRC       TransportService = 0
	ServiceUC       TransportService = 1
	ServiceRD       TransportService = 2
	ServiceExtended TransportService = 3 // see REQ.ExtendedService
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

// ExtendedXRC is the one value of REQ.ExtendedService with ServiceExtended.
const ExtendedXRC = 1

// REQ asks for a connection (12.6.5, table 106). Bits are listed from the most significant.
//
//	byte 0:4   local communication ID        byte 43    remote CM response timeout 5,
//	byte 4     reserved                                 transport service 2, end-to-end flow control 1
//	byte 5:3   vendor ID                     byte 44:3  starting PSN
//	byte 8:8   service ID                    byte 47    local CM response timeout 5, retry count 3
//	byte 16:8  local CA GUID                 byte 48:2  P_Key
//	byte 24:4  reserved                      byte 50    path MTU 4, RDC exists 1, RNR retry count 3
//	byte 28:4  local Q_Key                   byte 51    max CM retries 4, SRQ 1, extended transport 3
//	byte 32:3  local QPN                     byte 52:44 primary path
//	byte 35    responder resources           byte 96:44 alternate path
//	byte 36:3  local EECN                    byte 140   private data
//	byte 39    initiator depth
//	byte 40:3  remote EECN
type REQ struct {
	LocalCommID     uint32
	Reserved4       uint8
	VendorID        uint32 // 24 bits; a reserved field of earlier editions
	ServiceID       ServiceID
	LocalCAGUID     uint64
	Reserved24      uint32
	LocalQKey       uint32 // RD only
	LocalQPN        uint32 // 24 bits
	ResponderRes    uint8  // RDMA reads and atomics that the sender takes at a time
	LocalEECN       uint32 // 24 bits, RD only
	InitiatorDepth  uint8  // RDMA reads and atomics that the sender will have outstanding
	RemoteEECN      uint32 // 24 bits, RD only
	RemoteTimeout   TimeExp
	Service         TransportService
	FlowControl     bool   // end to end: the sender has credits for the receiver
	StartingPSN     uint32 // 24 bits: of the first packet that the peer is to send to LocalQPN (12.7.31)
	LocalTimeout    TimeExp
	RetryCount      uint8 // three bits
	PKey            uint16
	PathMTU         MTU   // four bits
	RDCExists       bool  // RD only
	RNRRetryCount   uint8 // three bits
	MaxCMRetries    uint8 // four bits
	SRQ             bool
	ExtendedService uint8 // three bits
	Primary         CMPath
	Alternate       CMPath // see HasAlternate
	PrivateData     [REQPrivateLen]byte
}

// HasAlternate tells whether the sender offers an alternate path; it leaves all of it zero otherwise (12.6.5).
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
		LocalCAGUID: be.Uint64(b[16:]), Reserved24: be.Uint32(b[24:]), LocalQKey: be.Uint32(b[28:]), LocalQPN: get24(b[32:]),
		ResponderRes: b[35], LocalEECN: get24(b[36:]), InitiatorDepth: b[39], RemoteEECN: get24(b[40:]),
		RemoteTimeout: TimeExp(b[43] >> 3), Service: TransportService(b[43] >> 1 & 3), FlowControl: b[43]&1 != 0,
		StartingPSN: get24(b[44:]), LocalTimeout: TimeExp(b[47] >> 3), RetryCount: b[47] & 7, PKey: be.Uint16(b[48:]),
		PathMTU: MTU(b[50] >> 4), RDCExists: b[50]&8 != 0, RNRRetryCount: b[50] & 7,
		MaxCMRetries: b[51] >> 4, SRQ: b[51]&8 != 0, ExtendedService: b[51] & 7, PrivateData: [REQPrivateLen]byte(b[140:CMDataLen]),
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
