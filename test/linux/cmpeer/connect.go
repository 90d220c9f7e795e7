package main

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"time"

	"ciddk/accesslayer/rdmacm"
	"ciddk/accesslayer/rdmacm/cmid"
)

// connect implements ucmatose, rdma_server and rdma_client, and rdma_xserver and rdma_xclient: connections, messages in
// both directions (for the last pair, only from the client), and a disconnect by the server.
func connect(ctx context.Context, m *rdmacm.Manager, o options, out io.Writer) error {
	cfg := cmid.IDConfig{}
	if o.IB {
		cfg.Space = cmid.IB
	}
	var sides []*side
	add := func(id *cmid.ID) error {
		s, err := prepare(id, o, 0)
		sides = append(sides, s)
		return err
	}
	terms := cmid.ConnParam{ResponderResources: 1, InitiatorDepth: 1, Retries: 5}
	if !o.Peer.IsValid() {
		ln, err := m.IDs().Listen(netip.AddrPortFrom(o.Addr, portConnect), cmid.ListenConfig{ID: cfg})
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "listening on %v\n", ln.Addr())
		for range o.Conns {
			id, err := ln.Accept(ctx)
			if err != nil {
				return err
			}
			if o.No {
				return id.Reject([]byte("no"))
			}
			select { // meanwhile, the connection manager sends an MRA to the client
			case <-time.After(o.Slow):
			case <-ctx.Done():
				return ctx.Err()
			}
			if err := id.CreateQP(qpConfig(o)); err != nil {
				return err
			}
			if err := add(id); err != nil {
				return err
			}
			if err := id.Accept(ctx, terms); err != nil {
				return err
			}
		}
	}
	for len(sides) < o.Conns {
		_, err := m.IDs().Dial(ctx, netip.AddrPortFrom(o.Peer, portConnect), cmid.DialConfig{ID: cfg, QP: qpConfig(o),
			Conn: terms, Setup: add})
		if err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "%d connections\n", len(sides))
	first := o.Peer.IsValid() == o.First
	turns := []bool{first, !first}
	if o.OneWay {
		turns = turns[:1]
	}
	for _, sending := range turns {
		for _, s := range sides {
			var err error
			if sending {
				err = s.send(ctx, sendWR())
			} else {
				_, err = s.receive(ctx)
			}
			if err != nil {
				return err
			}
		}
	}
	fmt.Fprintln(out, "data transfers complete")
	for _, s := range sides {
		if !o.Peer.IsValid() {
			if err := s.id.Disconnect(ctx); err != nil {
				return err
			}
			continue
		}
		select { // the server's
		case <-s.id.Done():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	fmt.Fprintln(out, "disconnected")
	return nil
}
