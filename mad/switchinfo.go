package mad

// SwitchInfoLen is the length of a SwitchInfo in bytes.
const SwitchInfoLen = 20

// Bits of SwitchInfo.Flags.
const (
	SwitchEnforceIn     uint8 = 1 << 7 // can enforce partitions on received packets
	SwitchEnforceOut    uint8 = 1 << 6 // can enforce partitions on sent packets
	SwitchFilterRawIn   uint8 = 1 << 5
	SwitchFilterRawOut  uint8 = 1 << 4
	SwitchEnhancedPort0 uint8 = 1 << 3
)

// NoMulticastTop is the SwitchInfo.McastFDBTop of a switch whose multicast forwarding table has no entry.
const NoMulticastTop uint16 = 0xbfff

// SwitchInfo describes a switch and its forwarding tables (14.2.5.4).
type SwitchInfo struct {
	LinearFDBCap           uint16 // bytes 0-1: entries of the linear forwarding table, from LID 0
	RandomFDBCap           uint16 // bytes 2-3
	McastFDBCap            uint16 // bytes 4-5: entries of the multicast forwarding table, from LID 0xC000
	LinearFDBTop           uint16 // bytes 6-7: last LID that the linear table forwards
	DefaultPort            uint8  // byte 8: for LIDs that the random table does not have
	DefaultMcastPrimary    uint8  // byte 9
	DefaultMcastNotPrimary uint8  // byte 10
	LifeTimeValue          uint8  // byte 11, bits 7-3: longest time of a packet in the switch
	PortStateChange        bool   // byte 11, bit 2: a port's state changed; a Set of 1 clears it
	OptimizedSLtoVL        uint8  // byte 11, bits 1-0
	LIDsPerPort            uint16 // bytes 12-13
	PartEnfCap             uint16 // bytes 14-15: entries in the P_Key table of each external port
	Flags                  uint8  // byte 16: Switch…
	Reserved17             uint8  // byte 17
	McastFDBTop            uint16 // bytes 18-19: last LID that the multicast table forwards, or NoMulticastTop
}

// Put writes the attribute to b[:SwitchInfoLen]. It panics if b is shorter.
func (s *SwitchInfo) Put(b []byte) {
	_ = b[SwitchInfoLen-1]
	be.PutUint16(b[0:], s.LinearFDBCap)
	be.PutUint16(b[2:], s.RandomFDBCap)
	be.PutUint16(b[4:], s.McastFDBCap)
	be.PutUint16(b[6:], s.LinearFDBTop)
	b[8], b[9], b[10] = s.DefaultPort, s.DefaultMcastPrimary, s.DefaultMcastNotPrimary
	b[11] = s.LifeTimeValue<<3 | bit(s.PortStateChange)<<2 | s.OptimizedSLtoVL&3
	be.PutUint16(b[12:], s.LIDsPerPort)
	be.PutUint16(b[14:], s.PartEnfCap)
	b[16], b[17] = s.Flags, s.Reserved17
	be.PutUint16(b[18:], s.McastFDBTop)
}

// Parse reads the attribute from b[:SwitchInfoLen]. It panics if b is shorter.
func (s *SwitchInfo) Parse(b []byte) {
	_ = b[SwitchInfoLen-1]
	*s = SwitchInfo{
		LinearFDBCap: be.Uint16(b[0:]), RandomFDBCap: be.Uint16(b[2:]), McastFDBCap: be.Uint16(b[4:]),
		LinearFDBTop: be.Uint16(b[6:]), DefaultPort: b[8], DefaultMcastPrimary: b[9], DefaultMcastNotPrimary: b[10],
		LifeTimeValue: b[11] >> 3, PortStateChange: b[11]&4 != 0, OptimizedSLtoVL: b[11] & 3,
		LIDsPerPort: be.Uint16(b[12:]), PartEnfCap: be.Uint16(b[14:]), Flags: b[16], Reserved17: b[17],
		McastFDBTop: be.Uint16(b[18:]),
	}
}
