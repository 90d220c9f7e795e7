package mad

// GMPDataLen is the length of what follows the header, in bytes.
const GMPDataLen = Size - HeaderLen

// GMP is a general management packet (13.4.2): any datagram of QP1 whose class has no header of its own here.
type GMP struct {
	Header
	Data [GMPDataLen]byte
}

// Put writes the packet to b[:Size]; b must be that long.
func (g *GMP) Put(b []byte) {
	_ = b[Size-1]
	g.Header.Put(b)
	copy(b[HeaderLen:], g.Data[:])
}

// Parse reads the packet from b[:Size]; b must be that long.
func (g *GMP) Parse(b []byte) {
	_ = b[Size-1]
	g.Header.Parse(b)
	g.Data = [GMPDataLen]byte(b[HeaderLen:])
}
