package rvt

import (
	"encoding/binary"

	"ciddk/ci"
)

// outcome is the result of validating and storing the data of a packet. The code is the same for packets from a wire
// and for trains that are moved inside the process, so that both are checked in the same way.
type outcome uint8

const (
	placed         outcome = iota
	tooLong                // the receive buffer ends before the data
	protection             // a local key, bound or right is invalid
	access                 // a remote key, bound or right of the region is invalid
	invalid                // the request breaks the protocol
	unsupported            // the QP does not permit the operation: unsupported function (IBTA volume 1, 9.9.3)
	notReady               // no receive buffer
	badWork                // the description of the receive buffer is invalid
	notInvalidated         // the message is stored, and its receiver may not invalidate the key in it
	earlier                // a late store of an earlier packet has failed: see late
)

// scatter copies n bytes of payload to a scatter list of pd, from offset off.
func (t *turn) scatter(pd *PD, sgl []ci.SGE, off uint64, payload [][]byte, n uint32) outcome {
	src := pieceSource{pieces: payload}
	for k := range sgl {
		if n == 0 {
			return placed
		}
		g := sgl[k]
		if off >= uint64(g.Length) {
			off -= uint64(g.Length)
			continue
		}
		g.Addr += off
		g.Length = min(g.Length-uint32(off), n)
		off = 0
		m, st := t.holds.local(&t.dev.keys, pd, g, true)
		if st != ci.WCSuccess {
			return protection
		}
		n -= g.Length
		if v := t.scatterPart(m, &src, g.Length); v != placed {
			return v
		}
	}
	if n > 0 {
		return tooLong
	}
	return placed
}

// scatterPart copies n bytes of the payload to one entry of a scatter list.
func (t *turn) scatterPart(m mem, src *pieceSource, n uint32) outcome {
	if !t.prepareLate(m) {
		return earlier
	}
	isBatch := m.isBatch(n)
	for n > 0 {
		b := src.next(n)
		if isBatch {
			t.addLate(m, b, protection)
		} else if t.write(m, b) != nil {
			return protection
		}
		m = m.advance(uint64(len(b)))
		n -= uint32(len(b))
	}
	if isBatch {
		return t.endLate(protection)
	}
	return placed
}

// scatter64 stores the original value of an atomic, in host order.
func (t *turn) scatter64(sgl []ci.SGE, v uint64) outcome {
	if t.word == nil {
		t.word = make([]byte, 8)
		t.wordSeg = [][]byte{t.word}
	}
	binary.NativeEndian.PutUint64(t.word, v)
	return t.scatter(t.pd, sgl, 0, t.wordSeg, 8)
}

// store copies the payload of a WRITE to the peer's target, whose first byte is at addr. It stores the end of a message
// so that a consumer that sees its last word sees the rest as well.
func (t *turn) store(key ci.Key, addr uint64, payload [][]byte, n uint32, last bool) outcome {
	m, ok := t.holds.remote(&t.dev.keys, t.endpoint, key, addr, uint64(n), ci.RemoteWrite)
	if !ok {
		return access
	}
	return t.storeAt(m, payload, n, last)
}

// storeAt is store for memory that was checked.
func (t *turn) storeAt(m mem, payload [][]byte, n uint32, last bool) outcome {
	if !t.prepareLate(m) {
		return earlier
	}
	isBatch := m.isBatch(n)
	for _, src := range payload {
		if uint32(len(src)) > n {
			src = src[:n]
		}
		n -= uint32(len(src))
		var err error
		switch {
		case isBatch && last && n == 0:
			t.addLast(m, src)
		case isBatch:
			t.addLate(m, src, access)
		case last && n == 0:
			err = m.writeLast(src)
		default:
			err = t.write(m, src)
		}
		if err != nil {
			return access
		}
		if n == 0 {
			break
		}
		m = m.advance(uint64(len(src)))
	}
	if isBatch {
		return t.endLate(access)
	}
	return placed
}
