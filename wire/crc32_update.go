package wire

import (
	"hash/crc32"
	"time"
)

// updateCRC runs bytes of any number through the register: the fastest way there is here. b escapes.
func updateCRC(r uint32, b []byte) uint32 {
	if foldFirst && len(b) >= foldMin {
		return foldCRC(r, b)
	}
	return libraryCRC(r, b)
}

func libraryCRC(r uint32, b []byte) uint32 { return ^crc32.Update(^r, crc32.IEEETable, b) }

// foldFirst tells that this processor does without what makes hash/crc32 fast. It is measured, in a few microseconds: hash/crc32 does not say
// which of its ways it goes, and the standard library shows no processor's abilities. Either answer gives the same CRCs.
var foldFirst = quickest(foldCRC) < quickest(libraryCRC)

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
