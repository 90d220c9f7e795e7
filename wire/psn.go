package wire

// PSNAdd returns p + n modulo 2^24. n may be negative.
func PSNAdd(p uint32, n int) uint32 { return (p + uint32(n)) & Mask24 }

// PSNDiff returns a - b as a signed 24-bit number. It is negative if a comes before b. A difference of 2^23 counts as
// negative (IBTA vol 1, 9.7 divides the space into a valid and a duplicate half).
func PSNDiff(a, b uint32) int { return int(int32((a-b)<<8) >> 8) }
