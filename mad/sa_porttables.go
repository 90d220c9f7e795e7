package mad

// Lengths of records of a port's tables in bytes.
const (
	PKeyTableRecordLen = 72
	SLtoVLRecordLen    = 8 + SLtoVLLen
	VLArbRecordLen     = 72
)

// Components of a PKeyTableRecord (15.2.5.11), an SLtoVLRecord (15.2.5.4) and a VLArbRecord (15.2.5.9).
const (
	PKeyTableRecordLID   ComponentMask = 1 << 0
	PKeyTableRecordBlock ComponentMask = 1 << 1
	PKeyTableRecordPort  ComponentMask = 1 << 2
	SLtoVLRecordLID      ComponentMask = 1 << 0
	SLtoVLRecordInPort   ComponentMask = 1 << 1
	SLtoVLRecordOutPort  ComponentMask = 1 << 2
	VLArbRecordLID       ComponentMask = 1 << 0
	VLArbRecordPort      ComponentMask = 1 << 1
	VLArbRecordBlock     ComponentMask = 1 << 2
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

// Check returns an *Error: ErrReserved for reserved bits.
func (r *PKeyTableRecord) Check() error {
	c := checker{layout: "PKeyTableRecord"}
	c.zeros("Reserved5", r.Reserved5[:])
	return c.err
}

// SLtoVLRecord is the map from service levels to virtual lanes between two ports of a switch, or of an adapter's port
// (15.2.5.4).
type SLtoVLRecord struct {
	LID       uint16          // bytes 0-1
	InPort    uint8           // byte 2
	OutPort   uint8           // byte 3
	Reserved4 [4]byte         // bytes 4-7
	Table     [SLtoVLLen]byte // bytes 8-15: see SLtoVL
}

// Put writes the record to b[:SLtoVLRecordLen]. It panics if b is shorter.
func (r *SLtoVLRecord) Put(b []byte) {
	_ = b[SLtoVLRecordLen-1]
	be.PutUint16(b, r.LID)
	b[2], b[3] = r.InPort, r.OutPort
	copy(b[4:8], r.Reserved4[:])
	copy(b[8:SLtoVLRecordLen], r.Table[:])
}

// Parse reads the record from b[:SLtoVLRecordLen]. It panics if b is shorter.
func (r *SLtoVLRecord) Parse(b []byte) {
	_ = b[SLtoVLRecordLen-1]
	*r = SLtoVLRecord{LID: be.Uint16(b), InPort: b[2], OutPort: b[3], Reserved4: [4]byte(b[4:8]),
		Table: [SLtoVLLen]byte(b[8:SLtoVLRecordLen])}
}

// Lanes returns the table.
func (r *SLtoVLRecord) Lanes() (t SLtoVL) {
	t.Parse(r.Table[:])
	return t
}

// Check returns an *Error: ErrReserved for reserved bits.
func (r *SLtoVLRecord) Check() error {
	c := checker{layout: "SLtoVLRecord"}
	c.zeros("Reserved4", r.Reserved4[:])
	return c.err
}

// VLArbRecord is a block of a port's VL arbitration table (15.2.5.9).
type VLArbRecord struct {
	LID       uint16   // bytes 0-1
	Port      uint8    // byte 2
	Block     uint8    // byte 3: 1 to 4
	Reserved4 [4]byte  // bytes 4-7
	Table     [64]byte // bytes 8-71: see VLArbBlock
}

// Put writes the record to b[:VLArbRecordLen]. It panics if b is shorter.
func (r *VLArbRecord) Put(b []byte) {
	_ = b[VLArbRecordLen-1]
	be.PutUint16(b, r.LID)
	b[2], b[3] = r.Port, r.Block
	copy(b[4:8], r.Reserved4[:])
	copy(b[8:VLArbRecordLen], r.Table[:])
}

// Parse reads the record from b[:VLArbRecordLen]. It panics if b is shorter.
func (r *VLArbRecord) Parse(b []byte) {
	_ = b[VLArbRecordLen-1]
	*r = VLArbRecord{LID: be.Uint16(b), Port: b[2], Block: b[3], Reserved4: [4]byte(b[4:8]),
		Table: [64]byte(b[8:VLArbRecordLen])}
}

// Weights returns the table.
func (r *VLArbRecord) Weights() (t VLArbBlock) {
	t.Parse(r.Table[:])
	return t
}

// Check returns an *Error: ErrReserved for reserved bits.
func (r *VLArbRecord) Check() error {
	c := checker{layout: "VLArbRecord"}
	c.zeros("Reserved4", r.Reserved4[:])
	return c.err
}
