package bench

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"ciddk/hca/reference/arena"
	"ciddk/internal/memfd"
)

// A relay is three processes with shared memory, and nothing else: the first writes messages to a ring, the second
// copies them from that ring to another, and the third reads them there. Two more rings lead back. A process that finds
// nothing to do yields the processor.

const (
	relaySlots     = 256
	relayRings     = 4 // first to relay, relay to second, and back
	relayRingBytes = 4096 + relaySlots*small
	relayBytes     = relayRings * relayRingBytes
)

// relayRing is one side's view of a ring. Both indices only grow.
type relayRing struct {
	written, read *uint64 // shared, each on a cache line of its own
	slots         []byte
	at, seen      uint64 // own index, and the other side's when it was last read
}

// openRings maps the rings of a relay.
func openRings(f *os.File) (rings [relayRings]relayRing, b []byte, err error) {
	b, err = unix.Mmap(int(f.Fd()), 0, relayBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return rings, nil, os.NewSyscallError("mmap", err)
	}
	for i := range rings {
		r := b[i*relayRingBytes : (i+1)*relayRingBytes]
		rings[i] = relayRing{written: sharedWord(r, 0), read: sharedWord(r, 128), slots: r[4096:]}
	}
	return rings, b, nil
}

func (r *relayRing) slot(i uint64) []byte { return r.slots[i%relaySlots*small:][:small:small] }

// room returns the number of messages that the ring has room for, at most n.
func (r *relayRing) room(n uint64) uint64 {
	if r.at-r.seen == relaySlots {
		r.seen = atomic.LoadUint64(r.read)
	}
	return min(relaySlots-(r.at-r.seen), n)
}

// have returns the number of messages in the ring, at most n.
func (r *relayRing) have(n uint64) uint64 {
	if r.at == r.seen {
		r.seen = atomic.LoadUint64(r.written)
	}
	return min(r.seen-r.at, n)
}

// publish makes what was written visible to the other side, and free what was read.
func (r *relayRing) publish() { atomic.StoreUint64(r.written, r.at) }
func (r *relayRing) free()    { atomic.StoreUint64(r.read, r.at) }

// relayEnd is a process of a relay: either end, or the one between.
type relayEnd struct {
	role
	middle bool
	file   *os.File // the first process's
	b      []byte
	rings  [relayRings]relayRing
	word   [small]byte
}

// newRelayEnd creates an end. The kind relay moves messages one way, relay-ping there and back.
func newRelayEnd(h *host, r role) (half, error) {
	e := &relayEnd{role: r, middle: h.side == nil}
	if !r.First {
		return e, nil
	}
	var err error
	if e.file, err = memfd.Create("relay", relayBytes); err != nil {
		return nil, err
	}
	if e.rings, e.b, err = openRings(e.file); err != nil {
		return nil, errors.Join(err, e.file.Close())
	}
	return e, nil
}

func (e *relayEnd) address() address {
	if e.file == nil {
		return address{}
	}
	return address{File: fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), e.file.Fd())}
}

// join maps the memory of the first process.
func (e *relayEnd) join(to address) error {
	if e.First {
		return nil
	}
	f, err := os.OpenFile(to.File, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	e.rings, e.b, err = openRings(f)
	return errors.Join(err, f.Close())
}

func (e *relayEnd) end() error { return nil }

func (e *relayEnd) close() error {
	var errs []error
	if e.b != nil {
		errs = append(errs, unix.Munmap(e.b))
	}
	if e.file != nil {
		errs = append(errs, e.file.Close())
	}
	return errors.Join(errs...)
}

// run moves ops messages, one way or, one after another, there and back.
func (e *relayEnd) run(ops int, w *watch) error {
	n, per := uint64(ops), uint64(max(e.Per, 1))
	there := e.Kind == "relay"
	switch {
	case e.middle && there:
		repeat(n, func(left uint64) uint64 { return e.pass(0, 1, min(left, per)) })
	case e.middle:
		repeat(2*n, func(uint64) uint64 { return e.pass(0, 1, 1) + e.pass(2, 3, 1) })
	case e.First && there:
		repeat(n, func(left uint64) uint64 { return e.write(0, min(left, per)) })
		for atomic.LoadUint64(e.rings[1].read) != e.rings[0].at { // until the other end has all
			arena.Yield()
		}
	case there:
		repeat(n, func(left uint64) uint64 { return e.read(1, min(left, per)) })
	case e.First:
		for range n {
			w.start()
			e.write(0, 1)
			repeat(1, func(uint64) uint64 { return e.read(3, 1) })
			w.stop(2)
		}
	default:
		for range n {
			repeat(1, func(uint64) uint64 { return e.read(1, 1) })
			e.write(2, 1)
		}
	}
	return nil
}

// repeat calls f with the number of messages that are left until it has moved n. After a call that moves none, it
// yields the processor.
func repeat(n uint64, f func(left uint64) uint64) {
	for n > 0 {
		k := f(n)
		if n -= k; k == 0 {
			arena.Yield()
		}
	}
}

// write writes up to n messages to a ring and publishes them together.
func (e *relayEnd) write(ring int, n uint64) uint64 {
	r := &e.rings[ring]
	n = r.room(n)
	for range n {
		e.word[0]++
		copy(r.slot(r.at), e.word[:])
		r.at++
	}
	if n > 0 {
		r.publish()
	}
	return n
}

// read reads up to n messages.
func (e *relayEnd) read(ring int, n uint64) uint64 {
	r := &e.rings[ring]
	n = r.have(n)
	for range n {
		copy(e.word[:], r.slot(r.at))
		r.at++
	}
	if n > 0 {
		r.free()
	}
	return n
}

// pass copies up to n messages from one ring to another.
func (e *relayEnd) pass(from, to int, n uint64) uint64 {
	in, out := &e.rings[from], &e.rings[to]
	if n = in.have(n); n == 0 {
		return 0
	}
	n = out.room(n)
	for range n {
		copy(out.slot(out.at), in.slot(in.at))
		in.at, out.at = in.at+1, out.at+1
	}
	if n > 0 {
		in.free()
		out.publish()
	}
	return n
}
