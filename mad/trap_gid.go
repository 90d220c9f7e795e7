package mad

// TrapGIDLen is the length of the details of a TrapGID in bytes.
const TrapGIDLen = 22

// TrapGID is the details of TrapGIDInService, TrapGIDOutOfService, TrapGroupCreated and TrapGroupDeleted (table 131).
// The subnet manager is their source.
type TrapGID struct {
	Reserved0 [6]byte  // bytes 0-5
	GID       [16]byte // bytes 6-21: of a port, or of a multicast group
}

// Put writes the details to b[:TrapGIDLen]. It panics if b is shorter.
func (t *TrapGID) Put(b []byte) {
	_ = b[TrapGIDLen-1]
	copy(b[:6], t.Reserved0[:])
	copy(b[6:TrapGIDLen], t.GID[:])
}

// Parse reads the details from b[:TrapGIDLen]. It panics if b is shorter.
func (t *TrapGID) Parse(b []byte) {
	_ = b[TrapGIDLen-1]
	*t = TrapGID{Reserved0: [6]byte(b[:6]), GID: [16]byte(b[6:TrapGIDLen])}
}
