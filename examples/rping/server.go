package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"ciddk/accesslayer/rdmacm"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/ci"
)

// serve runs the server, for one client or, with -P, for any number.
func serve(ctx context.Context, m *rdmacm.Manager, o options, out *printer) error {
	ln, err := m.IDs().Listen(netip.AddrPortFrom(o.Addr, o.Port), cmid.ListenConfig{})
	if err != nil {
		return err
	}
	defer ln.Close()
	out.printf("listening on %v\n", ln.Addr())
	if !o.Persist {
		id, err := ln.Accept(ctx)
		if err != nil {
			return err
		}
		if err := ln.Close(); err != nil { // one client only
			return errors.Join(err, id.Close())
		}
		return client(ctx, id, o, out)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		id, err := ln.Accept(ctx)
		if ctx.Err() != nil {
			return nil // an interrupt is the regular end
		}
		if err != nil {
			return err
		}
		wg.Go(func() {
			if err := client(ctx, id, o, out); err != nil {
				out.printf("%v: %v\n", id.RemoteAddr(), err)
			}
		})
	}
}

// client serves one client from its request to the end of its connection.
func client(ctx context.Context, id *cmid.ID, o options, out *printer) (err error) {
	s, err := accept(ctx, id, o, out)
	if err != nil {
		return errors.Join(err, id.Close())
	}
	defer func() { err = errors.Join(err, s.close()) }()
	for n := 0; o.Count == 0 || n < o.Count; n++ {
		source, err := s.receiveAdvert(ctx)
		if errors.Is(err, errLeft) { // between two pings, which is the regular end
			out.debugf("%v has disconnected after %d pings\n", id.RemoteAddr(), n)
			return nil
		}
		if err == nil {
			err = s.pong(ctx, source)
		}
		if err != nil {
			return fmt.Errorf("ping %d: %w", n, err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	return id.Disconnect(ctx)
}

// accept accepts the request of a client.
func accept(ctx context.Context, id *cmid.ID, o options, out *printer) (*side, error) {
	if err := id.CreateQP(qpConfig()); err != nil {
		return nil, err
	}
	s, err := newSide(id, o, out)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	if err := id.Accept(ctx, terms()); err != nil {
		return nil, errors.Join(err, s.mr.Destroy())
	}
	out.debugf("connected from %v to %v\n", id.LocalAddr(), id.RemoteAddr())
	return s, nil
}

// pong serves one ping: it reads the data, and writes the text in them back.
func (s *side) pong(ctx context.Context, source advert) error {
	err := s.do(ctx, "RDMA READ", ci.SendWR{Op: ci.OpRead, Remote: ci.Remote{Addr: source.Addr, RKey: source.RKey},
		SGL: []ci.SGE{s.region.SGE(sourceOff, source.Len)}})
	if err != nil {
		return err
	}
	data := text(s.buf[sourceOff : sourceOff+source.Len])
	if s.o.Verbose {
		s.out.printf("server ping data: %s\n", data)
	}
	if err := s.sendAdvert(ctx, advert{}); err != nil { // READ complete
		return err
	}
	sink, err := s.receiveAdvert(ctx)
	if err != nil {
		return err
	}
	n := min(uint32(len(data))+1, source.Len, sink.Len)
	err = s.do(ctx, "RDMA WRITE", ci.SendWR{Op: ci.OpWrite, Remote: ci.Remote{Addr: sink.Addr, RKey: sink.RKey},
		SGL: []ci.SGE{s.region.SGE(sourceOff, n)}})
	if err != nil {
		return err
	}
	if err := s.sendAdvert(ctx, advert{}); !errors.Is(err, errLeft) { // WRITE complete
		return err
	}
	return nil // the client disconnected before its acknowledgement was seen
}
