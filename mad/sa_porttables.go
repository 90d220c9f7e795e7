package mad

// PKeyTableRecordLen is the length of a PKeyTableRecord in bytes.
const PKeyTableRecordLen = 72

// Components of a PKeyTableRecord (15.2.5.11).
const (
	PKeyTableRecordLID   ComponentMask = 1 << 0
	PKeyTableRecordBlock ComponentMask = 1 << 1
	PKeyTableRecordPort  ComponentMask = 1 << 2
)

// PKeyTableRecord is a block of a port's P_Key table (15.2.5.11).
type PKeyTableRecord struct {
	LID       uint16     // bytes 0-1
	Block     uint16     // bytes 2-3
	Port      uint8      // byte 4
	Reserved5 [3]byte    // bytes 5-7
	PKeys     [32]uint16 // bytes 8-71
}

// Put writes the record to b[:PKeyTableRecordLen]. It panics if b is shorter.
func (r *PKeyTableRecord) Put(b []byte) {
	_ = b[PKeyTableRecordLen-1]
	be.PutUint16(b, r.LID)
	be.PutUint16(b[2:], r.Block)
	b[4] = r.Port
	copy(b[5:8], r.Reserved5[:])
	for i, k := range r.PKeys {
		be.PutUint16(b[8+2*i:], k)
	}
}

// Parse reads the record from b[:PKeyTableRecordLen]. It panics if b is shorter.
func (r *PKeyTableRecord) Parse(b []byte) {
	_ = b[PKeyTableRecordLen-1]
	r.LID, r.Block, r.Port = be.Uint16(b), be.Uint16(b[2:]), b[4]
	r.Reserved5 = [3]byte(b[5:8])
	for i := range r.PKeys {
		r.PKeys[i] = be.Uint16(b[8+2*i:])
	}
}
