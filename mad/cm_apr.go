package mad

import "fmt"

// APRStatus is the status in the response to a LAP (12.8.2, table 118).
type APRStatus uint8

// Statuses of an APR.
const (
	APRLoaded              APRStatus = 0
	APRInvalidCommID       APRStatus = 1
	APRUnsupported         APRStatus = 2
	APRRejected            APRStatus = 3
	APRRedirect            APRStatus = 4 // Info is a ClassPortInfo
	APRDuplicatePath       APRStatus = 5 // the path is the current primary or alternate path
	APRInvalidQPN          APRStatus = 6
	APRInvalidLID          APRStatus = 7
	APRInvalidGID          APRStatus = 8
	APRInvalidFlowLabel    APRStatus = 9
	APRInvalidTrafficClass APRStatus = 10
	APRInvalidHopLimit     APRStatus = 11
	APRInvalidRate         APRStatus = 12
	APRInvalidSL           APRStatus = 13
)

var aprStatus = map[APRStatus]string{
	APRLoaded: "path loaded", APRInvalidCommID: "invalid communication ID",
	APRUnsupported: "alternate paths not supported",
	APRRejected:    "path rejected", APRRedirect: "redirect", APRDuplicatePath: "path already in use",
	APRInvalidQPN: "QPN or EECN mismatch", APRInvalidLID: "LID rejected", APRInvalidGID: "GID rejected",
	APRInvalidFlowLabel: "invalid flow label", APRInvalidTrafficClass: "invalid traffic class",
	APRInvalidHopLimit: "invalid hop limit",
	APRInvalidRate:     "invalid packet rate", APRInvalidSL: "invalid SL",
}

func (s APRStatus) String() string {
	if t, ok := aprStatus[s]; ok {
		return t
	}
	return fmt.Sprintf("APR status %d", uint8(s))
}

// APR is the response to a LAP (12.8.2, table 117).
type APR struct {
	LocalCommID  uint32              // bytes 0-3
	RemoteCommID uint32              // bytes 4-7
	InfoLength   uint8               // byte 8: valid bytes of Info; see AdditionalInfo
	Status       APRStatus           // byte 9
	Reserved10   uint16              // bytes 10-11
	Info         [CMInfoLen]byte     // bytes 12-83
	PrivateData  [APRPrivateLen]byte // bytes 84-231
}

// AdditionalInfo returns the first InfoLength bytes of Info. If a peer sent a larger InfoLength, it returns all of
// Info.
func (m *APR) AdditionalInfo() []byte { return m.Info[:min(int(m.InfoLength), CMInfoLen)] }

// SetAdditionalInfo sets Info and InfoLength. It returns ErrLength, and leaves m unchanged, if info has more than
// CMInfoLen bytes.
func (m *APR) SetAdditionalInfo(info []byte) error {
	return setInfo("APR", &m.Info, &m.InfoLength, info)
}

// Attribute implements CMMessage.
func (*APR) Attribute() uint16 { return AttrAPR }

// Private implements CMMessage.
func (m *APR) Private() []byte { return m.PrivateData[:] }

// Put implements CMMessage.
func (m *APR) Put(b []byte) {
	_ = b[CMDataLen-1]
	be.PutUint32(b, m.LocalCommID)
	be.PutUint32(b[4:], m.RemoteCommID)
	b[8], b[9] = m.InfoLength, uint8(m.Status)
	be.PutUint16(b[10:], m.Reserved10)
	copy(b[12:84], m.Info[:])
	copy(b[84:CMDataLen], m.PrivateData[:])
}

// Parse implements CMMessage.
func (m *APR) Parse(b []byte) {
	*m = APR{LocalCommID: be.Uint32(b), RemoteCommID: be.Uint32(b[4:]), InfoLength: b[8], Status: APRStatus(b[9]),
		Reserved10: be.Uint16(b[10:]), Info: [CMInfoLen]byte(b[12:84]),
		PrivateData: [APRPrivateLen]byte(b[84:CMDataLen])}
}

// Check implements CMMessage.
func (m *APR) Check() error {
	c := checker{layout: "APR"}
	c.within("InfoLength", uint64(m.InfoLength), 0, CMInfoLen)
	c.zero("Reserved10", uint64(m.Reserved10))
	return c.err
}
