package mad

// SMInfoLen is the length of an SMInfo in bytes.
const SMInfoLen = 21

// States of a subnet manager in SMInfo.State (14.4.1).
const (
	SMNotActive   uint8 = 0
	SMDiscovering uint8 = 1
	SMStandby     uint8 = 2
	SMMaster      uint8 = 3
)

// Attribute modifiers of Set(SMInfo): what the sender wants the subnet manager to do (14.2.5.13).
const (
	SMHandover    uint32 = 1
	SMAcknowledge uint32 = 2
	SMDisable     uint32 = 3
	SMToStandby   uint32 = 4
	SMDiscover    uint32 = 5
)

// SMInfo describes a subnet manager (14.2.5.13). Managers exchange it; agents do not answer it.
type SMInfo struct {
	GUID     uint64 // bytes 0-7: port GUID of the manager
	SMKey    uint64 // bytes 8-15: SM_Key
	ActCount uint32 // bytes 16-19: grows while the manager is active
	Priority uint8  // byte 20, bits 7-4
	State    uint8  // byte 20, bits 3-0: SM…
}

// Put writes the attribute to b[:SMInfoLen]. It panics if b is shorter.
func (s *SMInfo) Put(b []byte) {
	_ = b[SMInfoLen-1]
	be.PutUint64(b[0:], s.GUID)
	be.PutUint64(b[8:], s.SMKey)
	be.PutUint32(b[16:], s.ActCount)
	b[20] = s.Priority<<4 | s.State&15
}

// Parse reads the attribute from b[:SMInfoLen]. It panics if b is shorter.
func (s *SMInfo) Parse(b []byte) {
	_ = b[SMInfoLen-1]
	*s = SMInfo{GUID: be.Uint64(b[0:]), SMKey: be.Uint64(b[8:]), ActCount: be.Uint32(b[16:]), Priority: b[20] >> 4,
		State: b[20] & 15}
}
