package rings

import (
	"encoding/binary"
	"math/bits"
	"sync/atomic"

	"ciddk/ci"
)

// ne is the byte order of the queues' integers.
var ne = binary.NativeEndian

// queue is the storage of a queue and the two shared indices in it. The ring types define which side owns which index.
type queue struct {
	data  []byte // elements
	prod  *uint32
	cons  *uint32
	mask  uint32 // elements - 1
	shift uint8  // log2 of an element's size
}

// geometry returns the number of slots for depth elements, and the log2 of the slot size for elem bytes.
func geometry(depth, elem int) (slots int, shift uint8) {
	return 1 << bits.Len(uint(depth)), uint8(bits.Len(uint(elem - 1)))
}

// queueSize returns the number of bytes of a queue.
func queueSize(slots int, shift uint8) int { return offData + slots<<shift }

// newQueue returns an empty queue over b, which has queueSize(slots, shift) bytes and is aligned to 8.
func newQueue(b []byte, slots int, shift uint8) queue {
	q := queue{data: b[offData:queueSize(slots, shift)], mask: uint32(slots - 1), shift: shift}
	q.prod, q.cons = word(b, offProducer), word(b, offConsumer)
	ne.PutUint32(b[offLog2Elem:], uint32(shift))
	ne.PutUint32(b[offIndexMask:], q.mask)
	q.clear()
	return q
}

func (q *queue) clear() {
	atomic.StoreUint32(q.prod, 0)
	atomic.StoreUint32(q.cons, 0)
}

// producer and consumer read an index and mask it, since the shared bytes may hold any value.
func (q *queue) producer() uint32 { return atomic.LoadUint32(q.prod) & q.mask }
func (q *queue) consumer() uint32 { return atomic.LoadUint32(q.cons) & q.mask }

// len returns the number of elements between the indices.
func (q *queue) len() int { return int((q.producer() - q.consumer()) & q.mask) }

// depth returns the number of elements that fit.
func (q *queue) depth() int { return int(q.mask) }

// slot returns the bytes of one element; i must be in range. The capacity of the slice ends with the element.
func (q *queue) slot(i uint32) []byte {
	off, end := int(i)<<q.shift, (int(i)+1)<<q.shift
	return q.data[off:end:end]
}

// putSGE writes a scatter/gather entry.
func putSGE(b []byte, s *ci.SGE) {
	_ = b[sgeSize-1]
	ne.PutUint64(b[sgeAddr:], s.Addr)
	ne.PutUint32(b[sgeLength:], s.Length)
	ne.PutUint32(b[sgeLKey:], uint32(s.LKey))
}

// sgesAppend appends n entries from b, which must have them, to sgl. It also returns the sum of their lengths.
func sgesAppend(sgl []ci.SGE, b []byte, n uint32) ([]ci.SGE, uint64) {
	var sum uint64
	for ; n > 0; n-- {
		e := b[:sgeSize]
		l := ne.Uint32(e[sgeLength:])
		sgl = append(sgl, ci.SGE{Addr: ne.Uint64(e[sgeAddr:]), Length: l, LKey: ci.Key(ne.Uint32(e[sgeLKey:]))})
		sum += uint64(l)
		b = b[sgeSize:]
	}
	return sgl, sum
}

// maxMessage is the longest message of the transport in bytes (IBTA volume 1, 9.4.1).
const maxMessage = 1 << 31
