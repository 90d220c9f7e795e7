package sma

import (
	"encoding/binary"
	"sync/atomic"
)

// words is a table that one goroutine at a time writes, and that others read without a lock. Each word holds 8 bytes of
// the attribute in wire order; an entry is never read half written.
type words []atomic.Uint64

func newWords(n int) words { return make(words, (n+7)/8) }

// put stores bytes from the offset off on, a multiple of 8. It ignores bytes beyond the end. It reports whether the
// table changed.
func (w words) put(off int, b []byte) (changed bool) {
	for i := off / 8; len(b) >= 8 && i < len(w); i++ {
		if v := binary.BigEndian.Uint64(b); w[i].Load() != v {
			w[i].Store(v)
			changed = true
		}
		b = b[8:]
	}
	return changed
}

// get reads bytes from off on, a multiple of 8, and leaves bytes beyond the end as they are.
func (w words) get(off int, b []byte) {
	for i := off / 8; len(b) >= 8 && i < len(w); i++ {
		binary.BigEndian.PutUint64(b, w[i].Load())
		b = b[8:]
	}
}

// byteAt returns byte i.
func (w words) byteAt(i int) uint8 { return uint8(w[i/8].Load() >> (56 - 8*(i%8))) }

// uint16At returns the 16-bit entry i.
func (w words) uint16At(i int) uint16 { return uint16(w[i/4].Load() >> (48 - 16*(i%4))) }
