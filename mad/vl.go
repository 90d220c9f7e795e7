package mad

// SLtoVLLen is the length of an SLtoVL in bytes.
const SLtoVLLen = 8

// SLtoVL maps each service level to a virtual lane (SLtoVLMappingTable, 14.2.5.8). VL 15 discards the packet. On a
// switch, bits 15-8 of the attribute modifier are the input port and bits 7-0 the output port.
type SLtoVL [16]uint8

// Put writes the attribute to b[:SLtoVLLen]. It panics if b is shorter. Bits beyond the low four of a lane are dropped.
func (t *SLtoVL) Put(b []byte) {
	_ = b[SLtoVLLen-1]
	for i := range SLtoVLLen {
		b[i] = t[2*i]<<4 | t[2*i+1]&15
	}
}

// Parse reads the attribute from b[:SLtoVLLen]. It panics if b is shorter.
func (t *SLtoVL) Parse(b []byte) {
	_ = b[SLtoVLLen-1]
	for i := range SLtoVLLen {
		t[2*i], t[2*i+1] = b[i]>>4, b[i]&15
	}
}

// VLWeight is an entry of a VL arbitration table. Weight is in units of 64 bytes; 0 skips the entry.
type VLWeight struct {
	VL     uint8 // bits 7-4 are reserved
	Weight uint8
}

// VLArbBlock is a block of a VL arbitration table (14.2.5.8.1). Bits 31-16 of the attribute modifier name it: 1 and 2
// are the lower and the upper half of the low priority table, 3 and 4 those of the high priority table. On a switch,
// bits 15-0 are the output port.
type VLArbBlock [32]VLWeight

// Put writes the attribute to b[:64]. It panics if b is shorter.
func (t *VLArbBlock) Put(b []byte) {
	_ = b[63]
	for i, e := range t {
		b[2*i], b[2*i+1] = e.VL, e.Weight
	}
}

// Parse reads the attribute from b[:64]. It panics if b is shorter.
func (t *VLArbBlock) Parse(b []byte) {
	_ = b[63]
	for i := range t {
		t[i] = VLWeight{b[2*i], b[2*i+1]}
	}
}
