package rings

import (
	"math/bits"
	"sync/atomic"
)

// The memory that the adapter shares with a process begins with a header of HeaderSize bytes: whether the engine sleeps
// (u32 at 0), a bit for each QP that has new work (u64 words from 160 on), and a bit for each of those words that is
// not zero (u64 words from 128 on). A post sets the bit of its QP first. The engine clears the bit of a word first. The
// bits of the first 256 QPs are on the cache line of the words' bits.
//
// # Doorbell
//
// While the engine is awake, it reads the bits continuously, and a post makes no system call: it sets the bit of its
// QP. Before the engine sleeps, it sets the word at 0 and reads the bits once more. A post that has set its bit loads
// the word. If the engine sleeps, the process that changes the word from 1 to 0 rings the doorbell. All these accesses
// are sequentially consistent, so that either the engine sees the bit or the post sees that the engine sleeps.
//
// # Bells
//
// A carrier that knows the indexes of a program's QPs can share them with the program in a table of BellsSize bytes. It
// has a u64 for each handle modulo MaxUserQPs: the handle in the upper half, and the index plus 1 in the lower one. It
// is 0 if there is no bell. The later one of two QPs with one place has it, and posts to the other are system calls.
const (
	HeaderSize = 4096
	// MaxUserQPs is the maximum number of QPs of a process with queues in shared memory.
	MaxUserQPs = 16384
	BellsSize  = 8 * MaxUserQPs

	offAsleep  = 0
	offSummary = 128
	offDirty   = offSummary + 8*numSummary
	numDirty   = MaxUserQPs / 64
	numSummary = numDirty / 64
)

// Header is the header of shared memory. No value in it affects correctness: a wrong bit costs a turn of an engine
// without work.
type Header struct {
	asleep  *uint32
	summary [numSummary]*uint64
	dirty   [numDirty]*uint64

	// Of the engine's side: marks that Take has taken and not passed on.
	words [numSummary]uint64 // words of dirty
	word  int                // the word that the bits belong to
	bits  uint64
}

// OpenHeader returns the header of shared memory. b has at least HeaderSize bytes.
func OpenHeader(b []byte) *Header {
	h := &Header{asleep: word(b, offAsleep)}
	for i := range h.summary {
		h.summary[i] = word64(b, offSummary+8*i)
	}
	for i := range h.dirty {
		h.dirty[i] = word64(b, offDirty+8*i)
	}
	return h
}

// set sets a bit, unless it is set.
func set(w *uint64, bit uint64) {
	if atomic.LoadUint64(w)&bit == 0 {
		atomic.OrUint64(w, bit)
	}
}

// Mark records that QP index has new work. It reports whether the caller must ring the doorbell.
func (h *Header) Mark(index uint32) (ring bool) {
	i := index / 64
	set(h.dirty[i], 1<<(index%64))
	set(h.summary[i/64], 1<<(i%64))
	return atomic.LoadUint32(h.asleep) != 0 && atomic.SwapUint32(h.asleep, 0) != 0
}

// takeLimit is the most QPs that one Take passes on, so that a process with many busy QPs does not delay others.
const takeLimit = 16

// Take clears the marks of up to takeLimit QPs and calls f with each of them. QPs of a process take turns. Take reports
// whether there were any. It must not be called concurrently.
func (h *Header) Take(f func(index uint32)) bool {
	for n := range takeLimit {
		if h.bits == 0 && !h.takeWord() {
			return n > 0
		}
		f(uint32(64*h.word + bits.TrailingZeros64(h.bits)))
		h.bits &= h.bits - 1
	}
	return true
}

// takeWord takes the next word with marks. It reports false if there is none.
func (h *Header) takeWord() bool {
	if h.nextWord() {
		return true
	}
	for k, w := range h.summary {
		if atomic.LoadUint64(w) != 0 {
			h.words[k] = atomic.SwapUint64(w, 0)
		}
	}
	return h.nextWord()
}

// nextWord takes the next of the words that are known to have marks.
func (h *Header) nextWord() bool {
	for k := range h.words {
		for h.words[k] != 0 {
			h.word = 64*k + bits.TrailingZeros64(h.words[k])
			h.words[k] &= h.words[k] - 1
			if h.bits = atomic.SwapUint64(h.dirty[h.word], 0); h.bits != 0 {
				return true
			}
		}
	}
	return false
}

// Sleep announces that the engine sleeps; it must Take once more afterwards. Wake is its inverse.
func (h *Header) Sleep() { atomic.StoreUint32(h.asleep, 1) }

// Wake announces that the engine is awake.
func (h *Header) Wake() { atomic.StoreUint32(h.asleep, 0) }

// SetBell sets the index of a QP in a table of bells.
func SetBell(table []byte, handle, index uint32) {
	atomic.StoreUint64(bell(table, handle), uint64(handle)<<32|uint64(index+1))
}

// RemoveBell removes a QP from a table of bells.
func RemoveBell(table []byte, handle uint32) {
	if b := bell(table, handle); atomic.LoadUint64(b)>>32 == uint64(handle) {
		atomic.StoreUint64(b, 0)
	}
}

func bell(table []byte, handle uint32) *uint64 { return word64(table, int(handle%MaxUserQPs)*8) }
