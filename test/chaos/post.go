package chaos

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"ciddk/ci"
)

// batch posts one to four operations at once; the last request is signaled.
func (e *end) batch(r *rand.Rand) {
	var wrs []ci.SendWR
	var entries []entry
	add := func(wr ci.SendWR, check func() error) {
		wr.ID = e.nextSend + uint64(len(wrs))
		if r.IntN(3) == 0 {
			wr.Flags |= ci.SendSignaled
		}
		if r.IntN(8) == 0 {
			wr.Flags |= ci.SendFence
		}
		wrs = append(wrs, wr)
		entries = append(entries, entry{id: wr.ID, check: check})
	}
	slot := func() uint64 { return (e.nextSend + uint64(len(wrs))) % outSlots * slotLen }
	for range 1 + r.IntN(3) {
		switch k := r.IntN(10); {
		case k < 3:
			e.addPlain(r, slot(), add)
		case k < 5:
			e.addWritten(r, slot, add)
		case k < 6:
			e.addImmediate(r, slot(), add)
		case k < 8:
			e.addRead(r, slot(), add)
		default:
			e.addAtomic(r, slot(), add)
		}
	}
	wrs[len(wrs)-1].Flags |= ci.SendSignaled
	for i := range entries {
		entries[i].signaled = wrs[i].Flags&ci.SendSignaled != 0
	}
	n, err := e.id.QP().PostSend(wrs)
	for _, x := range entries[:n] {
		e.sendQ.add(x)
	}
	e.nextSend += uint64(n)
	if err != nil {
		e.broken("post of a send request", err)
	} else if n != len(wrs) {
		e.c.w.v.failf("%s: PostSend took %d of %d requests without an error", e.c.name, n, len(wrs))
	}
	if n < len(wrs) && n > 0 && !entries[n-1].signaled {
		e.unsignaledTail(n)
	}
	e.c.w.tally.add("send requests", n)
}

// unsignaledTail handles a batch that an injected error cut after an unsignaled request, whose success would not be
// reported.
func (e *end) unsignaledTail(int) {
	for len(e.sendQ.queue) > 0 && !e.sendQ.queue[len(e.sendQ.queue)-1].signaled {
		e.sendQ.queue = e.sendQ.queue[:len(e.sendQ.queue)-1]
	}
	e.lost.Store(true)
}

type adder func(wr ci.SendWR, check func() error)

func (e *end) ownSeed() uint64 { return mix(e.c.seed + uint64(e.side)) }

// size returns a random length, often at a boundary.
func size(r *rand.Rand, most int) int {
	if r.IntN(3) == 0 {
		return min(most, one(r, []int{0, 1, 3, 4, 1000, 1023, 1024, 1025, 2048, 4096, most}))
	}
	return r.IntN(most + 1)
}

func putHeader(b []byte, num, kind uint64, n int) {
	binary.BigEndian.PutUint64(b, num)
	binary.BigEndian.PutUint64(b[8:], kind)
	binary.BigEndian.PutUint64(b[16:], uint64(n))
}

// addPlain adds a message with its content.
func (e *end) addPlain(r *rand.Rand, off uint64, add adder) {
	n := size(r, slotLen-headerLen)
	b := e.out.body()[off:][:headerLen+n]
	putHeader(b, e.sent, plain, n)
	fill(b[headerLen:], e.ownSeed(), e.sent)
	wr := ci.SendWR{Op: ci.OpSend}
	g := e.outMR.Region()
	switch {
	case len(b) <= 64 && r.IntN(2) == 0:
		wr.Inline = b
	default:
		cut := uint32(r.IntN(len(b) + 1))
		wr.SGL = []ci.SGE{g.SGE(off, cut), g.SGE(off+uint64(cut), uint32(len(b))-cut)}
	}
	e.sent++
	add(wr, nil)
}

// addWritten adds a WRITE, and the message that announces it.
func (e *end) addWritten(r *rand.Rand, slot func() uint64, add adder) {
	n := size(r, slotLen)
	off := slot()
	fill(e.out.body()[off:][:n], e.ownSeed(), e.sent)
	g := e.outMR.Region()
	to := e.peer.rw
	to.Addr += e.sent % rwSlots * slotLen
	add(ci.SendWR{Op: ci.OpWrite, SGL: []ci.SGE{g.SGE(off, uint32(n))}, Remote: to}, nil)
	off = slot()
	putHeader(e.out.body()[off:], e.sent, written, n)
	e.sent++
	add(ci.SendWR{Op: ci.OpSend, SGL: []ci.SGE{g.SGE(off, headerLen)}}, nil)
}

// addImmediate adds a WRITE that announces itself.
func (e *end) addImmediate(r *rand.Rand, off uint64, add adder) {
	n := size(r, slotLen)
	fill(e.out.body()[off:][:n], e.ownSeed(), e.sent)
	to := e.peer.rw
	to.Addr += e.sent % rwSlots * slotLen
	imm := uint32(e.sent&0xff) | uint32(n)<<8
	e.sent++
	add(ci.SendWR{Op: ci.OpWrite, Flags: ci.SendImmediate, Imm: imm,
		SGL:    []ci.SGE{e.outMR.Region().SGE(off, uint32(n))},
		Remote: to}, nil)
}

// addRead adds a READ of memory whose content is known.
func (e *end) addRead(r *rand.Rand, off uint64, add adder) {
	from := r.IntN(2*slotLen+1) &^ 7
	n := size(r, min(slotLen, 2*slotLen-from))
	to := e.peer.ro
	to.Addr += uint64(from)
	add(ci.SendWR{Op: ci.OpRead, SGL: []ci.SGE{e.inMR.Region().SGE(off, uint32(n))}, Remote: to}, func() error {
		want := make([]byte, from+n)
		fill(want, mix(e.c.seed+uint64(1-e.side)), 2)
		if got := e.in.body()[off:][:n]; string(got) != string(want[from:]) {
			return fmt.Errorf("a read of %d bytes at %d returned other bytes than the peer's memory holds", n, from)
		}
		e.c.w.tally.add("reads checked", 1)
		return nil
	})
}

// addAtomic adds an atomic on a counter that only this end changes.
func (e *end) addAtomic(r *rand.Rand, off uint64, add adder) {
	i := r.IntN(counters)
	was := e.mirror[i]
	to := e.peer.ctr
	to.Addr += uint64(8 * i)
	wr := ci.SendWR{Op: ci.OpFetchAdd, SGL: []ci.SGE{e.inMR.Region().SGE(off, 8)}, Remote: to}
	now := was
	if r.IntN(2) == 0 {
		wr.Atomic.Compare = r.Uint64()
		now = was + wr.Atomic.Compare
	} else {
		wr.Op = ci.OpCompareSwap
		wr.Atomic = ci.Atomic{Compare: was + uint64(r.IntN(2)), Swap: r.Uint64()}
		if wr.Atomic.Compare == was {
			now = wr.Atomic.Swap
		}
	}
	e.mirror[i] = now
	add(wr, func() error {
		if got := binary.NativeEndian.Uint64(e.in.body()[off:]); got != was {
			return fmt.Errorf("an atomic returned %#x, the counter was %#x", got, was)
		}
		e.c.w.tally.add("atomics checked", 1)
		return nil
	})
}
