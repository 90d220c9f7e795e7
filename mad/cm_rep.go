package mad

import "fmt"

// Failover is the answer of a REP to the alternate path of the REQ. It has two bits.
type Failover uint8

// Values of Failover (12.6.8).
const (
	FailoverAccepted     Failover = 0 // also if the REQ had no alternate path
	FailoverNotSupported Failover = 1
	FailoverRejected     Failover = 2 // alternate paths are supported, but this one is rejected
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

// REP accepts a connection (12.6.8, table 112).
type REP struct {
	LocalCommID    uint32              // bytes 0-3
	RemoteCommID   uint32              // bytes 4-7
	LocalQKey      uint32              // bytes 8-11: RD only
	LocalQPN       uint32              // bytes 12-14
	LocalEECN      uint32              // bytes 16-18: RD only
	StartingPSN    uint32              // bytes 20-22: PSN of the first packet from the peer to LocalQPN
	VendorID       uint32              // bytes 15, 19, 23: most significant first; reserved before release 1.3
	ResponderRes   uint8               // byte 24: at most InitiatorDepth of the REQ
	InitiatorDepth uint8               // byte 25: at most ResponderRes of the REQ
	TargetAckDelay TimeExp             // byte 26, bits 7-3
	Failover       Failover            // byte 26, bits 2-1
	FlowControl    bool                // byte 26, bit 0: the sender implements end-to-end flow control
	RNRRetryCount  uint8               // byte 27, bits 7-5
	SRQ            bool                // byte 27, bit 4: the sender's QP uses an SRQ
	Reserved27     uint8               // byte 27, bits 3-0
	LocalCAGUID    uint64              // bytes 28-35
	PrivateData    [REPPrivateLen]byte // bytes 36-231
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
		LocalEECN: get24(b[16:]), StartingPSN: get24(b[20:]),
		VendorID:     uint32(b[15])<<16 | uint32(b[19])<<8 | uint32(b[23]),
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
