package rings

import (
	"math/bits"
	"sync/atomic"
)

// The memory that the adapter shares with a process begins with a header of HeaderSize bytes: whether the engine sleeps
// (u32 at 0), and a bit for each QP that has new work (u64 words from 512 on).
//
// # Doorbell
//
// While the engine is awake, it reads the bits continuously, and a post makes no system call: it sets the bit of its
// QP. Before the engine sleeps, it sets the word at 0 and reads the bits once more. A post that has set its bit loads
// the word. If the engine sleeps, the process that changes the word from 1 to 0 rings the doorbell. All these accesses
// are sequentially consistent, so that either the engine sees the bit or the post sees that the engine sleeps.
const (
	HeaderSize = 4096
	// MaxUserQPs is the maximum number of QPs of a process with queues in shared memory.
	MaxUserQPs = 16384

	offAsleep = 0
	offDirty  = 512
	numDirty  = MaxUserQPs / 64
)

// Header is the header of shared memory. No value in it affects correctness: a wrong bit costs a turn of an engine
// without work.
type Header struct {
	asleep *uint32
	dirty  [numDirty]*uint64
}

// OpenHeader returns the header of shared memory. b has at least HeaderSize bytes.
func OpenHeader(b []byte) *Header {
	h := &Header{asleep: word(b, offAsleep)}
	for i := range h.dirty {
		h.dirty[i] = word64(b, offDirty+8*i)
	}
	return h
}

// Mark records that QP index has new work. It reports whether the caller must ring the doorbell.
func (h *Header) Mark(index uint32) (ring bool) {
	w, bit := h.dirty[index/64], uint64(1)<<(index%64)
	if atomic.LoadUint64(w)&bit == 0 {
		atomic.OrUint64(w, bit)
	}
	return atomic.LoadUint32(h.asleep) != 0 && atomic.SwapUint32(h.asleep, 0) != 0
}

// Take calls f with each QP that was marked, and clears the marks. It reports whether there were any.
func (h *Header) Take(f func(index uint32)) bool {
	found := false
	for i, w := range h.dirty {
		if atomic.LoadUint64(w) == 0 {
			continue
		}
		found = true
		for set := atomic.SwapUint64(w, 0); set != 0; set &= set - 1 {
			f(uint32(64*i + bits.TrailingZeros64(set)))
		}
	}
	return found
}

// Sleep announces that the engine sleeps; it must Take once more afterwards. Wake is its inverse.
func (h *Header) Sleep() { atomic.StoreUint32(h.asleep, 1) }

// Wake announces that the engine is awake.
func (h *Header) Wake() { atomic.StoreUint32(h.asleep, 0) }
