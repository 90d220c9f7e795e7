package mad

import "encoding/binary"

var be = binary.BigEndian

// put24 writes the low 24 bits of v to b[:3].
func put24(b []byte, v uint32) {
	_ = b[2]
	b[0], b[1], b[2] = byte(v>>16), byte(v>>8), byte(v)
}

// get24 reads b[:3].
func get24(b []byte) uint32 {
	_ = b[2]
	return uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2])
}

// bit returns 1 for true and 0 for false.
func bit(v bool) uint8 {
	if v {
		return 1
	}
	return 0
}
