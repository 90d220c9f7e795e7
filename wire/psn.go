package wire

// PSNAdd gives the packet sequence number n after (or, negative, before) p, modulo 2^24.
func PSNAdd(p uint32, n int) uint32 { return (p + uint32(n)) & Mask24 }

// PSNDiff gives a - b as a signed 24-bit number: negative when a comes before b. Numbers 2^23 apart count as before
// (IBTA vol 1, 9.7 divides the space in a valid and a duplicate half).
func PSNDiff(a, b uint32) int { return int(int32((a-b)<<8) >> 8) }
