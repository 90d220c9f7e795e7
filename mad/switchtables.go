package mad

// NoPort in a linear forwarding table discards the packets to a LID.
const NoPort uint8 = 0xff

// LinearBlock is a block of a switch's linear forwarding table (14.2.5.9): the ports of 64 LIDs. The attribute modifier
// is the number of the block.
type LinearBlock [64]uint8

// Put writes the attribute to b[:64]. It panics if b is shorter.
func (l *LinearBlock) Put(b []byte) { copy(b[:64], l[:]) }

// Parse reads the attribute from b[:64]. It panics if b is shorter.
func (l *LinearBlock) Parse(b []byte) { *l = LinearBlock(b[:64]) }

// MulticastBlock is a block of a switch's multicast forwarding table (14.2.5.12): for each of 32 multicast LIDs a mask
// of 16 ports. Bits 8-0 of the attribute modifier are the number of the block, and bits 31-28 the position: the mask is
// of the ports from 16 times the position.
type MulticastBlock [32]uint16

// Put writes the attribute to b[:64]. It panics if b is shorter.
func (m *MulticastBlock) Put(b []byte) {
	for i, v := range m {
		be.PutUint16(b[2*i:], v)
	}
}

// Parse reads the attribute from b[:64]. It panics if b is shorter.
func (m *MulticastBlock) Parse(b []byte) {
	for i := range m {
		m[i] = be.Uint16(b[2*i:])
	}
}
