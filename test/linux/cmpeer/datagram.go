package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"ciddk/accesslayer/rdmacm"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/ci"
)

func sendWR() ci.SendWR { return ci.SendWR{Op: ci.OpSend} }

// datagram implements udaddy: the client resolves the server's QP by SIDR, and sends its own QPN as immediate data.
func datagram(ctx context.Context, m *rdmacm.Manager, o options, out io.Writer) error {
	cfg := cmid.IDConfig{Space: cmid.UDP}
	var sides []*side
	if !o.Peer.IsValid() {
		ln, err := m.IDs().Listen(netip.AddrPortFrom(o.Addr, portDatagram), cmid.ListenConfig{ID: cfg})
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "listening on %v\n", ln.Addr())
		for range o.Conns {
			id, err := ln.Accept(ctx)
			if err != nil {
				return err
			}
			if err := id.CreateQP(qpConfig(o)); err != nil {
				return err
			}
			s, err := prepare(id, o, grhLen)
			if err != nil {
				return err
			}
			if err := id.Accept(ctx, cmid.ConnParam{}); err != nil {
				return err
			}
			sides = append(sides, s)
		}
		for _, s := range sides {
			wc, err := s.receive(ctx)
			if err != nil {
				return err
			}
			if wc.Flags&ci.WCImmediate == 0 {
				return errors.New("a message without immediate data: who sent it?")
			}
			peer := s.id.Peer()
			peer.QPN = ci.QPN(wc.Imm)
			if err := s.sendTo(ctx, peer); err != nil {
				return err
			}
		}
	}
	for len(sides) < o.Conns {
		var s *side
		id, err := m.IDs().Dial(ctx, netip.AddrPortFrom(o.Peer, portDatagram), cmid.DialConfig{ID: cfg, QP: qpConfig(o),
			Setup: func(id *cmid.ID) (err error) { s, err = prepare(id, o, grhLen); return err }})
		if err != nil {
			return err
		}
		sides = append(sides, s)
		if err := s.sendTo(ctx, id.Peer()); err != nil {
			return err
		}
	}
	if o.Peer.IsValid() {
		for _, s := range sides {
			if _, err := s.receive(ctx); err != nil {
				return err
			}
		}
	}
	fmt.Fprintln(out, "data transfers complete")
	return nil
}

// sendTo sends all messages to a peer, with our QPN as immediate data.
func (s *side) sendTo(ctx context.Context, to rdmacm.Peer) error {
	pd, err := s.id.PD()
	if err != nil {
		return err
	}
	av, err := pd.NewAV(to.AV)
	if err != nil {
		return err
	}
	defer func() { _ = av.Destroy() }() // Close of the manager destroys it otherwise
	wr := sendWR()
	wr.Flags = ci.SendImmediate
	wr.Imm = uint32(s.id.QP().Num())
	wr.To = ci.Dest{AV: av, QPN: to.QPN, QKey: to.QKey}
	return s.send(ctx, wr)
}

// group implements mckey: all members receive the messages of one sender.
func group(ctx context.Context, m *rdmacm.Manager, o options, out io.Writer) error {
	id, err := m.IDs().NewID(cmid.IDConfig{Space: cmid.UDP})
	if err != nil {
		return err
	}
	if err := id.Bind(netip.AddrPortFrom(o.Addr, 0)); err != nil {
		return err
	}
	if err := id.CreateQP(qpConfig(o)); err != nil {
		return err
	}
	s, err := prepare(id, o, grhLen)
	if err != nil {
		return err
	}
	g, err := id.Join(ctx, o.Group, rdmacm.JoinConfig{SendOnly: o.Send})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "joined %v\n", g.Addr())
	if o.Send {
		err = s.sendTo(ctx, g.Peer())
	} else {
		_, err = s.receive(ctx)
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "data transfers complete")
	return g.Leave(ctx)
}
