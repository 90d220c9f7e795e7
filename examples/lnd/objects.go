package main

import (
	"context"
	"fmt"
	"math"
	"sync"

	"ciddk/examples/lnd/lnd"
)

// objects is what a server keeps.
type objects struct {
	self lnd.NID

	mu   sync.Mutex
	data map[uint64][]byte
	room int // bytes that are left
}

func newObjects(self lnd.NID, room int) *objects {
	return &objects{self: self, data: map[uint64][]byte{}, room: room}
}

// put is a lnd.Handler. The data comes to a buffer of its own, so that nobody reads an object that is half written.
func (o *objects) put(_ context.Context, r lnd.Request) (lnd.Buffer, error) {
	if r.At.Portal != portal || uint64(r.At.Offset)+uint64(r.Length) > math.MaxUint32 {
		return lnd.Buffer{}, lnd.ErrRefused
	}
	if err := o.reserve(r); err != nil {
		return lnd.Buffer{}, err
	}
	b := make([]byte, r.Length)
	return lnd.Buffer{Data: b, Done: func(n int, err error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.room += r.Length
		if err == nil {
			o.write(r.At, b[:n])
		}
	}}, nil
}

// reserve takes the room for a write. A write to the beginning replaces the object, others must leave no gap.
func (o *objects) reserve(r lnd.Request) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if r.Length > o.room || int64(r.At.Offset) > int64(len(o.data[r.At.Match])) {
		return fmt.Errorf("%w: no room, or a gap", lnd.ErrRefused)
	}
	o.room -= r.Length
	return nil
}

// write puts bytes into an object; mu is held.
func (o *objects) write(at lnd.Address, b []byte) {
	old := o.data[at.Match]
	keep := min(int(at.Offset), len(old))
	o.data[at.Match] = append(old[:keep], b...)
	o.room += len(old) - len(o.data[at.Match])
}

// get is a lnd.Handler. An object that was read to its end answers with nothing.
func (o *objects) get(_ context.Context, r lnd.Request) (lnd.Buffer, error) {
	if r.At.Portal == pingPortal && r.At.Match == pingMatch {
		return lnd.Buffer{Data: pingInfo{NIDs: []lnd.NID{o.self}}.append(nil)}, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	b, ok := o.data[r.At.Match]
	if r.At.Portal != portal || !ok || int64(r.At.Offset) > int64(len(b)) {
		return lnd.Buffer{}, lnd.ErrRefused
	}
	b = b[r.At.Offset:]
	return lnd.Buffer{Data: append([]byte(nil), b[:min(len(b), r.Length)]...)}, nil
}
