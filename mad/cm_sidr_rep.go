package mad

import "fmt"

// SIDRStatus is the status in the response to a SIDR_REQ (12.11.2, table 121).
type SIDRStatus uint8

// Statuses of a SIDR_REP.
const (
	SIDRValid              SIDRStatus = 0
	SIDRUnsupportedService SIDRStatus = 1 // the service ID has no listener
	SIDRRejected           SIDRStatus = 2
	SIDRNoQP               SIDRStatus = 3
	SIDRRedirect           SIDRStatus = 4 // Info is a ClassPortInfo
	SIDRUnsupportedVersion SIDRStatus = 5
)

var sidrStatus = map[SIDRStatus]string{SIDRValid: "QPN and Q_Key valid",
	SIDRUnsupportedService: "service ID not supported",
	SIDRRejected:           "rejected by service provider", SIDRNoQP: "no QP available", SIDRRedirect: "redirect",
	SIDRUnsupportedVersion: "version not supported"}

func (s SIDRStatus) String() string {
	if t, ok := sidrStatus[s]; ok {
		return t
	}
	return fmt.Sprintf("SIDR status %d", uint8(s))
}

// SIDRREP is the response to a SIDR_REQ (12.11.2, table 120).
type SIDRREP struct {
	RequestID   uint32                  // bytes 0-3
	Status      SIDRStatus              // byte 4
	InfoLength  uint8                   // byte 5: valid bytes of Info; see AdditionalInfo
	VendorID    uint32                  // bytes 6, 7, 11: most significant first; reserved before release 1.3
	QPN         uint32                  // bytes 8-10
	ServiceID   ServiceID               // bytes 12-19
	QKey        uint32                  // bytes 20-23
	Info        [CMInfoLen]byte         // bytes 24-95
	PrivateData [SIDRREPPrivateLen]byte // bytes 96-231
}

// AdditionalInfo returns the first InfoLength bytes of Info. If a peer sent a larger InfoLength, it returns all of
// Info.
func (m *SIDRREP) AdditionalInfo() []byte { return m.Info[:min(int(m.InfoLength), CMInfoLen)] }

// SetAdditionalInfo sets Info and InfoLength. It returns ErrLength, and leaves m unchanged, if info has more than
// CMInfoLen bytes.
func (m *SIDRREP) SetAdditionalInfo(info []byte) error {
	return setInfo("SIDR_REP", &m.Info, &m.InfoLength, info)
}

// Attribute implements CMMessage.
func (*SIDRREP) Attribute() uint16 { return AttrSIDRREP }

// Private implements CMMessage.
func (m *SIDRREP) Private() []byte { return m.PrivateData[:] }

// Put implements CMMessage.
func (m *SIDRREP) Put(b []byte) {
	_ = b[CMDataLen-1]
	be.PutUint32(b, m.RequestID)
	b[4], b[5] = uint8(m.Status), m.InfoLength
	be.PutUint16(b[6:], uint16(m.VendorID>>8))
	put24(b[8:], m.QPN)
	b[11] = uint8(m.VendorID)
	be.PutUint64(b[12:], uint64(m.ServiceID))
	be.PutUint32(b[20:], m.QKey)
	copy(b[24:96], m.Info[:])
	copy(b[96:CMDataLen], m.PrivateData[:])
}

// Parse implements CMMessage.
func (m *SIDRREP) Parse(b []byte) {
	*m = SIDRREP{RequestID: be.Uint32(b), Status: SIDRStatus(b[4]), InfoLength: b[5],
		VendorID: uint32(be.Uint16(b[6:]))<<8 | uint32(b[11]), QPN: get24(b[8:]),
		ServiceID: ServiceID(be.Uint64(b[12:])),
		QKey:      be.Uint32(b[20:]), Info: [CMInfoLen]byte(b[24:96]),
		PrivateData: [SIDRREPPrivateLen]byte(b[96:CMDataLen])}
}

// Check implements CMMessage.
func (m *SIDRREP) Check() error {
	c := checker{layout: "SIDR_REP"}
	c.within("InfoLength", uint64(m.InfoLength), 0, CMInfoLen)
	c.fits("VendorID", uint64(m.VendorID), 24)
	c.fits("QPN", uint64(m.QPN), 24)
	return c.err
}
