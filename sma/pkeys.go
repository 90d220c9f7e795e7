package sma

import "ciddk/ci"

// A PKeyTable is the P_Key table of a port. It is read without a lock.
type PKeyTable struct {
	w   words
	num int
}

func newPKeyTable(n int) PKeyTable { return PKeyTable{newWords(2 * n), n} }

// Len returns the number of entries.
func (t *PKeyTable) Len() int { return t.num }

// At returns entry i, below Len. 0 is an unused entry.
func (t *PKeyTable) At(i int) ci.PKey { return ci.PKey(t.w.uint16At(i)) }

// Has reports whether a packet with the P_Key k may pass: the table has its partition, and at least one of the two is a
// full member (IBTA volume 1, 10.9.3). An invalid P_Key never passes.
func (t *PKeyTable) Has(k ci.PKey) bool {
	const full, partition = 0x8000, 0x7fff
	if k&partition == 0 {
		return false
	}
	for i := range t.num {
		if e := t.At(i); e&partition == k&partition && (e|k)&full != 0 {
			return true
		}
	}
	return false
}

// mask clears the bytes of a block of 32 entries that are beyond the table.
func (t *PKeyTable) mask(block int, b []byte) {
	if n := 2 * (t.num - 32*block); n < len(b) {
		clear(b[max(n, 0):])
	}
}
