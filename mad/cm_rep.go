package mad

import "fmt"

// Failover is a REP's answer to the alternate path of the REQ, two bits.
type Failover uint8

// Answers (12.6.8).
const (
	FailoverAccepted     Failover = 0 // also where the REQ had no alternate path
	FailoverNotSupported Failover = 1
	FailoverRejected     Failover = 2 // supported, but not this path
)

func (f Failover) String() string {
	switch f {
	case FailoverAccepted:
		return "accepted"
	case FailoverNotSupported:
		return "not supported"
	case FailoverRejected:
		return "rejected"
	}
	return fmt.Sprintf("Failover(%d)", uint8(f))
}

// REP accepts a connection (12.6.8, table 112). Bits are listed from the most significant.
//
//	byte 0:4   local communication ID     byte 23    vendor ID, low byte
//	byte 4:4   remote communication ID    byte 24    responder resources
//	byte 8:4   local Q_Key                byte 25    initiator depth
//	byte 12:3  local QPN                  byte 26    target ACK delay 5, failover accepted 2,
//	byte 15    vendor ID, high byte                  end-to-end flow control 1
//	byte 16:3  local EECN                 byte 27    RNR retry count 3, SRQ 1, reserved 4
//	byte 19    vendor ID, middle byte     byte 28:8  local CA GUID
//	byte 20:3  starting PSN               byte 36    private data
type REP struct {
	LocalCommID    uint32
	RemoteCommID   uint32
	LocalQKey      uint32 // RD only
	LocalQPN       uint32 // 24 bits
	LocalEECN      uint32 // 24 bits, RD only
	StartingPSN    uint32 // 24 bits: as in REQ
	VendorID       uint32 // 24 bits in bytes 15, 19, 23; reserved fields of earlier editions
	ResponderRes   uint8  // at most the REQ's InitiatorDepth
	InitiatorDepth uint8  // at most the REQ's ResponderRes
	TargetAckDelay TimeExp
	Failover       Failover
	FlowControl    bool
	RNRRetryCount  uint8 // three bits
	SRQ            bool
	Reserved27     uint8 // four bits
	LocalCAGUID    uint64
	PrivateData    [REPPrivateLen]byte
}

// Attribute implements CMMessage.
func (*REP) Attribute() uint16 { return AttrREP }

// Private implements CMMessage.
func (m *REP) Private() []byte { return m.PrivateData[:] }

// Put implements CMMessage.
func (m *REP) Put(b []byte) {
	_ = b[CMDataLen-1]
	be.PutUint32(b, m.LocalCommID)
	be.PutUint32(b[4:], m.RemoteCommID)
	be.PutUint32(b[8:], m.LocalQKey)
	be.PutUint32(b[12:], m.LocalQPN<<8|m.VendorID>>16&0xff)
	be.PutUint32(b[16:], m.LocalEECN<<8|m.VendorID>>8&0xff)
	be.PutUint32(b[20:], m.StartingPSN<<8|m.VendorID&0xff)
	b[24], b[25] = m.ResponderRes, m.InitiatorDepth
	b[26] = uint8(m.TargetAckDelay)<<3 | uint8(m.Failover&3)<<1 | bit(m.FlowControl)
	b[27] = m.RNRRetryCount<<5 | bit(m.SRQ)<<4 | m.Reserved27&15
	be.PutUint64(b[28:], m.LocalCAGUID)
	copy(b[36:CMDataLen], m.PrivateData[:])
}

// Parse implements CMMessage.
func (m *REP) Parse(b []byte) {
	_ = b[CMDataLen-1]
	*m = REP{
		LocalCommID: be.Uint32(b), RemoteCommID: be.Uint32(b[4:]), LocalQKey: be.Uint32(b[8:]), LocalQPN: get24(b[12:]),
		LocalEECN: get24(b[16:]), StartingPSN: get24(b[20:]), VendorID: uint32(b[15])<<16 | uint32(b[19])<<8 | uint32(b[23]),
		ResponderRes: b[24], InitiatorDepth: b[25],
		TargetAckDelay: TimeExp(b[26] >> 3), Failover: Failover(b[26] >> 1 & 3), FlowControl: b[26]&1 != 0,
		RNRRetryCount: b[27] >> 5, SRQ: b[27]&16 != 0, Reserved27: b[27] & 15, LocalCAGUID: be.Uint64(b[28:]),
		PrivateData: [REPPrivateLen]byte(b[36:CMDataLen]),
	}
}

// Check implements CMMessage.
func (m *REP) Check() error {
	c := checker{layout: "REP"}
	c.fits("LocalQPN", uint64(m.LocalQPN), 24)
	c.fits("LocalEECN", uint64(m.LocalEECN), 24)
	c.fits("StartingPSN", uint64(m.StartingPSN), 24)
	c.fits("VendorID", uint64(m.VendorID), 24)
	c.fits("TargetAckDelay", uint64(m.TargetAckDelay), 5)
	c.within("Failover", uint64(m.Failover), 0, uint64(FailoverRejected))
	c.fits("RNRRetryCount", uint64(m.RNRRetryCount), 3)
	c.zero("Reserved27", uint64(m.Reserved27))
	return c.err
}
