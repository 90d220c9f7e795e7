package userabi

import (
	"math/bits"
	"sync/atomic"
)

// PageSize is the size of the pages of the shared memory.
const PageSize = 4096

// HeaderSize is the size of the header of the shared memory.
const HeaderSize = PageSize

// Words of the header.
const (
	offAsleep = 0   // u32: the driver sleeps
	offFailed = 64  // u32: the adapter has failed
	offQPs    = 128 // doorbells of QPs
	offCQs    = 512 // doorbells of CQs

	numWords = MaxQPs / 64 // of a kind of doorbells
)

// A Header is the header of the shared memory.
//
// To ring a doorbell, the library sets its bit and loads the word at 0. Before the driver sleeps, it sets that word and
// takes the bits once more. All accesses are sequentially consistent, so that either the driver sees the bit or the
// library sees that the driver sleeps. The process that changes the word from 1 to 0 wakes the driver.
type Header struct {
	asleep, failed *uint32
	qps, cqs       doorbells
}

// doorbells are the doorbells of a kind: a word of 64 bits with a bit for each of the words that follow, and those,
// with a bit for each doorbell.
type doorbells struct {
	summary *uint64
	words   [numWords]*uint64
	rung    [numWords]uint64 // those that were taken; of the driver's side
}

func openDoorbells(b []byte) (d doorbells) {
	d.summary = word64(b, 0)
	for i := range d.words {
		d.words[i] = word64(b, 8*(i+1))
	}
	return d
}

// OpenHeader returns the header of shared memory, which has at least HeaderSize bytes.
func OpenHeader(b []byte) *Header {
	return &Header{asleep: word(b, offAsleep), failed: word(b, offFailed), qps: openDoorbells(b[offQPs:]),
		cqs: openDoorbells(b[offCQs:])}
}

// Ring rings a doorbell: that of a QP, below MaxQPs, or that of a CQ, from DoorbellCQ on. It reports whether the caller
// must wake the driver.
func (h *Header) Ring(doorbell uint32) (wake bool) {
	d := &h.qps
	if doorbell >= DoorbellCQ {
		d = &h.cqs
	}
	i := doorbell % MaxQPs / 64
	set(d.words[i], 1<<(doorbell%64))
	set(d.summary, 1<<i)
	return atomic.LoadUint32(h.asleep) != 0 && atomic.SwapUint32(h.asleep, 0) != 0
}

// set sets a bit, unless it is set.
func set(w *uint64, bit uint64) {
	if atomic.LoadUint64(w)&bit == 0 {
		atomic.OrUint64(w, bit)
	}
}

// Take calls fn with each doorbell that was rung since the last Take. A CQ that was armed before a QP's doorbell was
// rung comes before the QP. Take reports whether there were any. It is for the driver, and must not be called
// concurrently.
func (h *Header) Take(fn func(doorbell uint32)) bool {
	qps := h.qps.take()
	cqs := h.cqs.take() // after those of QPs
	h.cqs.each(cqs, DoorbellCQ, fn)
	h.qps.each(qps, 0, fn)
	return qps|cqs != 0
}

// take takes all doorbells, and returns the words that have some.
func (d *doorbells) take() (found uint64) {
	if atomic.LoadUint64(d.summary) == 0 {
		return 0
	}
	found = atomic.SwapUint64(d.summary, 0) & (1<<numWords - 1)
	for w := found; w != 0; w &= w - 1 {
		i := bits.TrailingZeros64(w)
		if d.rung[i] = atomic.SwapUint64(d.words[i], 0); d.rung[i] == 0 {
			found &^= 1 << i
		}
	}
	return found
}

// each calls fn with the doorbells in words that take has found.
func (d *doorbells) each(found uint64, first uint32, fn func(doorbell uint32)) {
	for ; found != 0; found &= found - 1 {
		i := bits.TrailingZeros64(found)
		for w := d.rung[i]; w != 0; w &= w - 1 {
			fn(first + uint32(64*i+bits.TrailingZeros64(w)))
		}
	}
}

// Sleep announces that the driver sleeps. It must Take once more afterwards.
func (h *Header) Sleep() { atomic.StoreUint32(h.asleep, 1) }

// Wake announces that the driver is awake.
func (h *Header) Wake() { atomic.StoreUint32(h.asleep, 0) }

// Fail announces that the adapter has failed.
func (h *Header) Fail() { atomic.StoreUint32(h.failed, 1) }

// HasFailed reports whether the adapter has failed.
func (h *Header) HasFailed() bool { return atomic.LoadUint32(h.failed) != 0 }
