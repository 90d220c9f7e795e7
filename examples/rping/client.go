package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"ciddk/accesslayer/rdmacm"
	"ciddk/accesslayer/rdmacm/cmid"
)

// ping runs the client: it connects, pings and disconnects.
func ping(ctx context.Context, m *rdmacm.Manager, o options, out *printer) (err error) {
	var s *side
	dial, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	id, err := m.IDs().Dial(dial, netip.AddrPortFrom(o.Addr, o.Port), cmid.DialConfig{QP: qpConfig(), Conn: terms(),
		Setup: func(id *cmid.ID) (err error) { s, err = newSide(id, o, out); return err }})
	if err != nil {
		if s != nil {
			err = errors.Join(err, s.mr.Destroy())
		}
		switch {
		case errors.Is(err, syscall.ECONNREFUSED):
			err = fmt.Errorf("%w (is there a server at %v?)", err, o.Addr)
		case errors.Is(err, context.DeadlineExceeded):
			err = fmt.Errorf("%w: no answer for %v: is there a server at %v, and does UDP port 4791 pass in both "+
				"directions?", err, o.Timeout, o.Addr)
		}
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	out.debugf("connected from %v to %v\n", id.LocalAddr(), id.RemoteAddr())
	for n := 0; o.Count == 0 || n < o.Count; n++ {
		if err := s.ping(ctx, n); err != nil {
			return fmt.Errorf("ping %d: %w", n, err)
		}
	}
	end, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	return id.Disconnect(end)
}

// ping carries out ping n.
func (s *side) ping(ctx context.Context, n int) error {
	source, sink := s.buf[sourceOff:sourceOff+s.o.Size], s.buf[sinkOff:sinkOff+s.o.Size]
	fill(source, n)
	clear(sink)
	for _, off := range []uint64{sourceOff, sinkOff} {
		sge := s.region.SGE(off, uint32(s.o.Size))
		if err := s.sendAdvert(ctx, advert{Addr: s.region.Addr + off, RKey: s.region.RKey,
			Len: sge.Length}); err != nil {
			return err
		}
		if _, err := s.receiveAdvert(ctx); err != nil { // READ complete, then WRITE complete
			return err
		}
	}
	if s.o.Check && !bytes.Equal(source, sink) {
		return errors.New("the data that came back differ from the data sent")
	}
	if s.o.Verbose {
		s.out.printf("ping data: %s\n", text(sink))
	}
	return nil
}

// fill writes the same text as the original rping: the number, consecutive letters from one that depends on the number,
// and a NUL.
func fill(b []byte, n int) {
	const first, last = 'A', 'z'
	c := first + n%(last-first+1)
	for i := copy(b, fmt.Sprintf("rdma-ping-%d: ", n)); i < len(b); i++ {
		b[i] = byte(c)
		if c++; c > last {
			c = first
		}
	}
	b[len(b)-1] = 0
}

// text returns the bytes of b before its first NUL.
func text(b []byte) []byte {
	if before, _, ok := bytes.Cut(b, []byte{0}); ok {
		return before
	}
	return b
}
