package wire

import (
	"hash/crc32"
	"time"
)

// updateCRC returns the register r after the bytes of b, by the fastest method on this processor. b escapes.
func updateCRC(r uint32, b []byte) uint32 {
	if foldFirst && len(b) >= foldMin {
		return foldCRC(r, b)
	}
	return libraryCRC(r, b)
}

// libraryCRC is updateCRC with hash/crc32.
func libraryCRC(r uint32, b []byte) uint32 { return ^crc32.Update(^r, crc32.IEEETable, b) }

// foldFirst reports whether foldCRC is faster than hash/crc32, as on processors without instructions for CRCs. The
// program measures it at start, in a few microseconds, because neither hash/crc32 nor the standard library reports the
// abilities of the processor. The CRCs do not depend on it.
var foldFirst = quickest(foldCRC) < quickest(libraryCRC)

// quickest returns the shortest of five times that f takes for 1024 bytes.
func quickest(f func(uint32, []byte) uint32) time.Duration {
	b := make([]byte, 1024)
	best := time.Hour
	for range 5 {
		start := time.Now()
		f(0, b)
		best = min(best, time.Since(start))
	}
	return best
}
