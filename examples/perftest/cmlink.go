package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"ciddk/accesslayer"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/ci"
	"ciddk/examples/perftest/exchange"
)

// Buffers of a cmLink. The peer sends one message and waits for the reply.
const (
	cmRecvs   = 4
	cmSlotLen = 64
	cmSendOff = cmRecvs * cmSlotLen
)

// A cmLink is an exchange.Link over a reliable connection of RDMA CM. Each message is one SEND. It uses an cmid.ID,
// not a Conn, because perftest negotiates a connection without RDMA reads, and Pending must not block.
type cmLink struct {
	id     *cmid.ID
	mr     *accesslayer.MR
	buf    []byte
	region ci.Region
	wc     [1]ci.WC
	held   bool // wc[0] is a receive that Recv has not taken
}

// cmLinkQP describes the queue pair of a cmLink.
func cmLinkQP() cmid.QPConfig {
	return cmid.QPConfig{Caps: ci.QPCaps{SendDepth: 2, RecvDepth: cmRecvs}}
}

// cmLinkTerms are the connection parameters of perftest: no RDMA reads.
var cmLinkTerms = cmid.ConnParam{ResponderResources: -1, InitiatorDepth: -1}

// dialCM connects to a perftest server.
func dialCM(ctx context.Context, a *adapter, to netip.AddrPort) (exchange.Link, net.Addr, error) {
	l := &cmLink{}
	id, err := a.cm.IDs().Dial(ctx, to, cmid.DialConfig{Local: netip.AddrPortFrom(a.addr, 0), QP: cmLinkQP(),
		Conn: cmLinkTerms, Setup: l.prepare})
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("no server: %w", err), l.release())
	}
	return l, id.RemoteAddr(), nil
}

// acceptCM waits for a client until ctx ends, and then for its connection until the timeout.
func acceptCM(ctx context.Context, ln *cmid.Listener, timeout time.Duration) (exchange.Link, net.Addr, error) {
	id, err := ln.Accept(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("waiting for a client: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	l := &cmLink{}
	if err = id.CreateQP(cmLinkQP()); err == nil {
		err = l.prepare(id)
	}
	if err == nil {
		err = id.Accept(ctx, cmLinkTerms)
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("accepting a client: %w", err), id.Close(), l.release())
	}
	return l, id.RemoteAddr(), nil
}

// prepare creates the buffers of an ID with a queue pair, and posts the receives.
func (l *cmLink) prepare(id *cmid.ID) error {
	l.id, l.buf = id, make([]byte, cmSendOff+cmSlotLen)
	pd, err := id.PD()
	if err != nil {
		return err
	}
	if l.mr, err = pd.NewMR(ci.MRCreate{Memory: ci.Bytes(l.buf), Access: ci.LocalWrite}); err != nil {
		return err
	}
	l.region = l.mr.Region()
	for i := range cmRecvs {
		if err := l.post(i); err != nil {
			return err
		}
	}
	return nil
}

func (l *cmLink) post(slot int) error {
	_, err := l.id.QP().PostRecv([]ci.RecvWR{{ID: uint64(slot),
		SGL: []ci.SGE{l.region.SGE(uint64(slot*cmSlotLen), cmSlotLen)}}})
	return err
}

func (l *cmLink) Done() <-chan struct{} { return l.id.Done() }

func (l *cmLink) Pending() bool {
	if !l.held {
		n, err := l.id.RecvCQ().Poll(l.wc[:])
		l.held = n > 0 && err == nil
	}
	return l.held
}

func (l *cmLink) Send(ctx context.Context, b []byte) error {
	if l.Pending() { // Send needs l.wc
		return errors.New("the peer sent a message out of turn: do both sides run the same test?")
	}
	copy(l.buf[cmSendOff:], b)
	wr := ci.SendWR{Op: ci.OpSend, Flags: ci.SendSignaled, SGL: []ci.SGE{l.region.SGE(cmSendOff, uint32(len(b)))}}
	if _, err := l.id.QP().PostSend([]ci.SendWR{wr}); err != nil {
		return l.why(err)
	}
	return l.wait(ctx, l.id.SendCQ())
}

func (l *cmLink) Recv(ctx context.Context, b []byte) error {
	if !l.held {
		if err := l.wait(ctx, l.id.RecvCQ()); err != nil {
			return err
		}
	}
	l.held = false
	wc := l.wc[0]
	if wc.Status != ci.WCSuccess {
		return l.why(wc.Err())
	}
	if int(wc.Length) != len(b) {
		return fmt.Errorf("the peer sent %d bytes, want %d: is it perftest, and do both sides run the same test?",
			wc.Length, len(b))
	}
	slot := int(wc.ID)
	copy(b, l.buf[slot*cmSlotLen:])
	return l.post(slot)
}

// wait waits for a completion. It fails when the connection ends.
func (l *cmLink) wait(ctx context.Context, cq *accesslayer.CQ) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(l.id.Context(), func() { cancel(exchange.ErrLeft) })()
	if _, err := cq.Wait(ctx, l.wc[:]); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return err
	}
	if l.wc[0].Status != ci.WCSuccess {
		return l.why(l.wc[0].Err())
	}
	return nil
}

// why returns exchange.ErrLeft if the connection has ended, otherwise err.
func (l *cmLink) why(err error) error {
	if l.id.Err() != nil {
		return exchange.ErrLeft
	}
	return err
}

func (l *cmLink) release() error {
	if l.mr == nil {
		return nil
	}
	return l.mr.Destroy()
}

// Close ends the connection without waiting for the peer.
func (l *cmLink) Close() error { return errors.Join(l.id.Close(), l.release()) }
