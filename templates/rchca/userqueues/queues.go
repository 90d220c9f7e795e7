package userqueues

import (
	"encoding/binary"
	"math/bits"
	"sync/atomic"

	"ciddk/ci"
)

// HeaderSize is the number of bytes before the first queue.
const HeaderSize = 4096

const (
	second   = 64  // offset of the second index
	elements = 128 // offset of the first element
	fixed    = 32  // bytes of an element before segments or inline data
	segment  = 16  // bytes of a segment
)

var order = binary.NativeEndian

// A Header is the beginning of the memory of a process.
type Header struct{ asleep *atomic.Uint32 }

// OpenHeader returns the header of the memory, which has at least HeaderSize bytes.
func OpenHeader(b []byte) Header { return Header{word(b, 0)} }

// Sleep announces that the driver is about to sleep. It must look at all queues once more before it sleeps.
func (h Header) Sleep() { h.asleep.Store(1) }

// Awaken announces that the driver reads the queues. The library calls it after a post: if the result is true, the
// driver slept, and the library rings the doorbell.
func (h Header) Awaken() bool { return h.asleep.Load() != 0 && h.asleep.Swap(0) != 0 }

// A Shape is the size of a send queue.
type Shape struct{ Slots, SGEs, Inline int }

func (s Shape) element() int { return fixed + (max(segment*s.SGEs, s.Inline)+7)&^7 }

// Size returns the number of bytes of a send queue.
func (s Shape) Size() int { return elements + places(s.Slots)*s.element() }

// places returns the number of elements in memory: a power of two, because the indices wrap at 2^32.
func places(n int) int { return 1 << bits.Len(uint(max(n, 1)-1)) }

// A Send is a send queue.
type Send struct {
	Posted    *atomic.Uint32
	Completed *atomic.Uint32
	shape     Shape
	b         []byte
}

// OpenSend returns the send queue in b. ok is false if b is too short.
func OpenSend(b []byte, s Shape) (q *Send, ok bool) {
	if s.Slots < 1 || s.SGEs < 0 || s.Inline < 0 || len(b) < s.Size() {
		return nil, false
	}
	return &Send{Posted: word(b, 0), Completed: word(b, second), shape: s, b: b[elements:s.Size()]}, true
}

func (q *Send) slot(i uint32) []byte {
	n := q.shape.element()
	k := int(i&uint32(places(q.shape.Slots)-1)) * n
	return q.b[k : k+n : k+n]
}

// Put encodes a request that the rules have accepted. It does not allocate.
func (q *Send) Put(i uint32, w *ci.SendWR) {
	b := q.slot(i)
	order.PutUint64(b, w.ID)
	order.PutUint64(b[8:], w.Remote.Addr)
	order.PutUint32(b[16:], uint32(w.Remote.RKey))
	order.PutUint32(b[20:], uint32(w.Flags))
	order.PutUint32(b[24:], w.Imm)
	b[28], b[29] = byte(w.Op), 0
	order.PutUint16(b[30:], uint16(len(w.Inline)))
	if w.Inline != nil {
		copy(b[fixed:], w.Inline)
		return
	}
	b[29] = byte(len(w.SGL))
	for j := range w.SGL {
		s := b[fixed+j*segment:]
		order.PutUint64(s, w.SGL[j].Addr)
		order.PutUint32(s[8:], w.SGL[j].Length)
		order.PutUint32(s[12:], uint32(w.SGL[j].LKey))
	}
}

// Get decodes a request into w, whose SGL and Inline have the capacity of the queue. ok is false if the request has
// more segments or inline data than the queue.
func (q *Send) Get(i uint32, w *ci.SendWR) (ok bool) {
	b := q.slot(i)
	*w = ci.SendWR{ID: order.Uint64(b), Op: ci.SendOp(b[28]), Flags: ci.SendFlags(order.Uint32(b[20:])),
		Imm:    order.Uint32(b[24:]),
		Remote: ci.Remote{Addr: order.Uint64(b[8:]), RKey: ci.Key(order.Uint32(b[16:]))},
		SGL:    w.SGL[:0], Inline: w.Inline[:0]}
	segments, inline := int(b[29]), int(order.Uint16(b[30:]))
	if segments > q.shape.SGEs || inline > q.shape.Inline {
		return false
	}
	w.Inline = append(w.Inline, b[fixed:fixed+inline]...)
	for j := range segments {
		s := b[fixed+j*segment:]
		w.SGL = append(w.SGL, ci.SGE{Addr: order.Uint64(s), Length: order.Uint32(s[8:]),
			LKey: ci.Key(order.Uint32(s[12:]))})
	}
	return true
}

// Completions is a completion queue.
type Completions struct {
	Added  *atomic.Uint32
	Polled *atomic.Uint32
	size   int
	b      []byte
}

// CompletionsSize returns the number of bytes of a completion queue.
func CompletionsSize(size int) int { return elements + places(size)*fixed }

// OpenCompletions returns the completion queue in b. ok is false if b is too short.
func OpenCompletions(b []byte, size int) (q *Completions, ok bool) {
	if size < 1 || len(b) < CompletionsSize(size) {
		return nil, false
	}
	return &Completions{Added: word(b, 0), Polled: word(b, second), size: size, b: b[elements:]}, true
}

// Size returns the number of entries.
func (q *Completions) Size() int { return q.size }

func (q *Completions) entry(i uint32) []byte {
	k := int(i&uint32(places(q.size)-1)) * fixed
	return q.b[k : k+fixed]
}

// Put encodes a completion, without its context.
func (q *Completions) Put(i uint32, wc *ci.WC) {
	b := q.entry(i)
	order.PutUint64(b, wc.ID)
	order.PutUint32(b[8:], uint32(wc.QPN))
	order.PutUint32(b[12:], wc.Length)
	order.PutUint32(b[16:], wc.Imm)
	order.PutUint16(b[20:], uint16(wc.Flags))
	b[22], b[23] = byte(wc.Status), byte(wc.Op)
	order.PutUint32(b[24:], uint32(wc.SrcQP))
	order.PutUint16(b[28:], uint16(wc.SLID))
	b[30], b[31] = byte(wc.SL), wc.PathBits
}

// Get decodes a completion.
func (q *Completions) Get(i uint32, wc *ci.WC) {
	b := q.entry(i)
	*wc = ci.WC{ID: order.Uint64(b), QPN: ci.QPN(order.Uint32(b[8:])), Length: order.Uint32(b[12:]),
		Imm: order.Uint32(b[16:]), Flags: ci.WCFlags(order.Uint16(b[20:])), Status: ci.WCStatus(b[22]),
		Op: ci.WCOp(b[23]), SrcQP: ci.QPN(order.Uint32(b[24:])), SLID: ci.LID(order.Uint16(b[28:])),
		SL: ci.SL(b[30]), PathBits: b[31]}
}
