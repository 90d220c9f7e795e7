package mad

// GMPDataLen is the length of the data that follows the common header, in bytes.
const GMPDataLen = Size - HeaderLen

// GMP is a general management packet (13.4.2). It represents any datagram of QP1 without a class-specific header.
type GMP struct {
	Header                  // bytes 0-23
	Data   [GMPDataLen]byte // bytes 24-255: the rest of the datagram
}

// Put writes the packet to b[:Size]. It panics if b is shorter.
func (g *GMP) Put(b []byte) {
	_ = b[Size-1]
	g.Header.Put(b)
	copy(b[HeaderLen:], g.Data[:])
}

// Parse reads the packet from b[:Size]. It panics if b is shorter.
func (g *GMP) Parse(b []byte) {
	_ = b[Size-1]
	g.Header.Parse(b)
	g.Data = [GMPDataLen]byte(b[HeaderLen:])
}
