package mad

// Lengths of the details of traps in bytes. The rest of Notice.Details is reserved.
const (
	TrapLIDLen        = 2
	TrapPortLen       = 5
	TrapCapabilityLen = 12
	TrapSystemGUIDLen = 14
	TrapMKeyLen       = 54
	TrapKeyLen        = 50
	TrapSwitchPKeyLen = 51
)

// TrapLID is the details of TrapLinkState (table 131).
type TrapLID struct {
	LID uint16 // bytes 0-1: of the switch
}

// Put writes the details to b[:TrapLIDLen]. It panics if b is shorter.
func (t *TrapLID) Put(b []byte) { be.PutUint16(b, t.LID) }

// Parse reads the details from b[:TrapLIDLen]. It panics if b is shorter.
func (t *TrapLID) Parse(b []byte) { t.LID = be.Uint16(b) }

// TrapPort is the details of TrapLinkIntegrity, TrapBufferOverrun and TrapFlowControl (table 132).
type TrapPort struct {
	Reserved0 uint16 // bytes 0-1
	LID       uint16 // bytes 2-3
	Port      uint8  // byte 4
}

// Put writes the details to b[:TrapPortLen]. It panics if b is shorter.
func (t *TrapPort) Put(b []byte) {
	_ = b[TrapPortLen-1]
	be.PutUint16(b[0:], t.Reserved0)
	be.PutUint16(b[2:], t.LID)
	b[4] = t.Port
}

// Parse reads the details from b[:TrapPortLen]. It panics if b is shorter.
func (t *TrapPort) Parse(b []byte) {
	_ = b[TrapPortLen-1]
	*t = TrapPort{be.Uint16(b[0:]), be.Uint16(b[2:]), b[4]}
}

// TrapCapability is the details of TrapCapabilityMask (table 133).
type TrapCapability struct {
	Reserved0      uint16 // bytes 0-1
	LID            uint16 // bytes 2-3
	Reserved4      uint16 // byte 4, bit 7, to byte 5, bit 1
	OtherChanges   bool   // byte 5, bit 0: ChangeFlags is valid
	CapabilityMask uint32 // bytes 6-9
	ChangeFlags    uint16 // bytes 10-11
}

// Put writes the details to b[:TrapCapabilityLen]. It panics if b is shorter.
func (t *TrapCapability) Put(b []byte) {
	_ = b[TrapCapabilityLen-1]
	be.PutUint16(b[0:], t.Reserved0)
	be.PutUint16(b[2:], t.LID)
	be.PutUint16(b[4:], t.Reserved4<<1|uint16(bit(t.OtherChanges)))
	be.PutUint32(b[6:], t.CapabilityMask)
	be.PutUint16(b[10:], t.ChangeFlags)
}

// Parse reads the details from b[:TrapCapabilityLen]. It panics if b is shorter.
func (t *TrapCapability) Parse(b []byte) {
	_ = b[TrapCapabilityLen-1]
	other := be.Uint16(b[4:])
	*t = TrapCapability{be.Uint16(b[0:]), be.Uint16(b[2:]), other >> 1, other&1 != 0, be.Uint32(b[6:]),
		be.Uint16(b[10:])}
}

// TrapSystemGUID is the details of TrapSystemGUIDChanged (table 134).
type TrapSystemGUID struct {
	Reserved0 uint16 // bytes 0-1
	LID       uint16 // bytes 2-3
	Reserved4 uint16 // bytes 4-5
	GUID      uint64 // bytes 6-13: the new system image GUID
}

// Put writes the details to b[:TrapSystemGUIDLen]. It panics if b is shorter.
func (t *TrapSystemGUID) Put(b []byte) {
	_ = b[TrapSystemGUIDLen-1]
	be.PutUint16(b[0:], t.Reserved0)
	be.PutUint16(b[2:], t.LID)
	be.PutUint16(b[4:], t.Reserved4)
	be.PutUint64(b[6:], t.GUID)
}

// Parse reads the details from b[:TrapSystemGUIDLen]. It panics if b is shorter.
func (t *TrapSystemGUID) Parse(b []byte) {
	_ = b[TrapSystemGUIDLen-1]
	*t = TrapSystemGUID{be.Uint16(b[0:]), be.Uint16(b[2:]), be.Uint16(b[4:]), be.Uint64(b[6:])}
}

// TrapMKey is the details of TrapBadMKey (table 135): the SMP that failed the check.
type TrapMKey struct {
	Reserved0  uint16   // bytes 0-1
	LID        uint16   // bytes 2-3
	DrSLID     uint16   // bytes 4-5
	Method     Method   // byte 6
	Reserved7  uint8    // byte 7
	Attribute  uint16   // bytes 8-9
	Modifier   uint32   // bytes 10-13
	MKey       uint64   // bytes 14-21: the wrong one
	Reserved22 uint8    // byte 22
	Directed   bool     // byte 23, bit 7: the SMP had a directed route
	Truncated  bool     // byte 23, bit 6: the return path has more hops than the details
	HopCount   uint8    // byte 23, bits 5-0
	ReturnPath [30]byte // bytes 24-53
}

// Put writes the details to b[:TrapMKeyLen]. It panics if b is shorter.
func (t *TrapMKey) Put(b []byte) {
	_ = b[TrapMKeyLen-1]
	be.PutUint16(b[0:], t.Reserved0)
	be.PutUint16(b[2:], t.LID)
	be.PutUint16(b[4:], t.DrSLID)
	b[6], b[7] = uint8(t.Method), t.Reserved7
	be.PutUint16(b[8:], t.Attribute)
	be.PutUint32(b[10:], t.Modifier)
	be.PutUint64(b[14:], t.MKey)
	b[22] = t.Reserved22
	b[23] = bit(t.Directed)<<7 | bit(t.Truncated)<<6 | t.HopCount&63
	copy(b[24:TrapMKeyLen], t.ReturnPath[:])
}

// Parse reads the details from b[:TrapMKeyLen]. It panics if b is shorter.
func (t *TrapMKey) Parse(b []byte) {
	_ = b[TrapMKeyLen-1]
	*t = TrapMKey{Reserved0: be.Uint16(b[0:]), LID: be.Uint16(b[2:]), DrSLID: be.Uint16(b[4:]), Method: Method(b[6]),
		Reserved7: b[7], Attribute: be.Uint16(b[8:]), Modifier: be.Uint32(b[10:]), MKey: be.Uint64(b[14:]),
		Reserved22: b[22], Directed: b[23]&0x80 != 0, Truncated: b[23]&0x40 != 0, HopCount: b[23] & 63,
		ReturnPath: [30]byte(b[24:TrapMKeyLen])}
}

// TrapKey is the details of TrapBadPKey and TrapBadQKey (table 136): the packet that failed the check. Side 1 sent it.
type TrapKey struct {
	Reserved0  uint16   // bytes 0-1
	LID1       uint16   // bytes 2-3
	LID2       uint16   // bytes 4-5
	Key        uint32   // bytes 6-9: the P_Key, in the low half, or the Q_Key
	SL         uint8    // byte 10, bits 7-4
	Reserved10 uint8    // byte 10, bits 3-0
	QP1        uint32   // bytes 11-13
	Reserved14 uint8    // byte 14
	QP2        uint32   // bytes 15-17
	GID1       [16]byte // bytes 18-33
	GID2       [16]byte // bytes 34-49
}

// Put writes the details to b[:TrapKeyLen]. It panics if b is shorter.
func (t *TrapKey) Put(b []byte) {
	_ = b[TrapKeyLen-1]
	be.PutUint16(b[0:], t.Reserved0)
	be.PutUint16(b[2:], t.LID1)
	be.PutUint16(b[4:], t.LID2)
	be.PutUint32(b[6:], t.Key)
	b[10] = t.SL<<4 | t.Reserved10&15
	put24(b[11:], t.QP1)
	b[14] = t.Reserved14
	put24(b[15:], t.QP2)
	copy(b[18:34], t.GID1[:])
	copy(b[34:TrapKeyLen], t.GID2[:])
}

// Parse reads the details from b[:TrapKeyLen]. It panics if b is shorter.
func (t *TrapKey) Parse(b []byte) {
	_ = b[TrapKeyLen-1]
	*t = TrapKey{Reserved0: be.Uint16(b[0:]), LID1: be.Uint16(b[2:]), LID2: be.Uint16(b[4:]), Key: be.Uint32(b[6:]),
		SL: b[10] >> 4, Reserved10: b[10] & 15, QP1: get24(b[11:]), Reserved14: b[14], QP2: get24(b[15:]),
		GID1: [16]byte(b[18:34]), GID2: [16]byte(b[34:TrapKeyLen])}
}

// Bits of TrapSwitchPKey.Valid: the fields that the switch could fill in.
const (
	TrapValidLID1  uint16 = 1 << 15
	TrapValidLID2  uint16 = 1 << 14
	TrapValidPKey  uint16 = 1 << 13
	TrapValidSL    uint16 = 1 << 12
	TrapValidQP1   uint16 = 1 << 11
	TrapValidQP2   uint16 = 1 << 10
	TrapValidGID1  uint16 = 1 << 9
	TrapValidGID2  uint16 = 1 << 8
	TrapValidSwLID uint16 = 1 << 7
	TrapValidPort  uint16 = 1 << 6
)

// TrapSwitchPKey is the details of TrapSwitchBadPKey (table 138): the packet that a port of a switch did not admit.
type TrapSwitchPKey struct {
	Valid      uint16   // bytes 0-1: TrapValid…
	LID1       uint16   // bytes 2-3
	LID2       uint16   // bytes 4-5
	PKey       uint16   // bytes 6-7
	SL         uint8    // byte 8, bits 7-4
	Reserved8  uint8    // byte 8, bits 3-0
	QP1        uint32   // bytes 9-11
	Reserved12 uint8    // byte 12
	QP2        uint32   // bytes 13-15
	GID1       [16]byte // bytes 16-31
	GID2       [16]byte // bytes 32-47
	SwitchLID  uint16   // bytes 48-49
	Port       uint8    // byte 50
}

// Put writes the details to b[:TrapSwitchPKeyLen]. It panics if b is shorter.
func (t *TrapSwitchPKey) Put(b []byte) {
	_ = b[TrapSwitchPKeyLen-1]
	be.PutUint16(b[0:], t.Valid)
	be.PutUint16(b[2:], t.LID1)
	be.PutUint16(b[4:], t.LID2)
	be.PutUint16(b[6:], t.PKey)
	b[8] = t.SL<<4 | t.Reserved8&15
	put24(b[9:], t.QP1)
	b[12] = t.Reserved12
	put24(b[13:], t.QP2)
	copy(b[16:32], t.GID1[:])
	copy(b[32:48], t.GID2[:])
	be.PutUint16(b[48:], t.SwitchLID)
	b[50] = t.Port
}

// Parse reads the details from b[:TrapSwitchPKeyLen]. It panics if b is shorter.
func (t *TrapSwitchPKey) Parse(b []byte) {
	_ = b[TrapSwitchPKeyLen-1]
	*t = TrapSwitchPKey{Valid: be.Uint16(b[0:]), LID1: be.Uint16(b[2:]), LID2: be.Uint16(b[4:]),
		PKey: be.Uint16(b[6:]), SL: b[8] >> 4, Reserved8: b[8] & 15, QP1: get24(b[9:]), Reserved12: b[12],
		QP2: get24(b[13:]), GID1: [16]byte(b[16:32]), GID2: [16]byte(b[32:48]), SwitchLID: be.Uint16(b[48:]),
		Port: b[50]}
}
