package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"syscall"
	"time"

	"ciddk/accesslayer"
	"ciddk/accesslayer/rdmacm"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/ci"
	"ciddk/examples/perftest/exchange"
)

// qkey is the Q_Key of perftest's datagrams. Over RDMA CM it is rdmacm.QKey.
const qkey ci.QKey = 0x11111111

// grhLen is the length of the space for the GRH before the data of a received datagram (IBTA volume 1, 11.4.1.2).
const grhLen = 40

// minRNRTimer is the code of 0.64 ms, the time that the peer waits when there is no posted receive.
const minRNRTimer = 12

// A lane is a queue pair with its peer.
type lane struct {
	qp            ci.QP
	id            *cmid.ID // with -R
	to            ci.Dest  // UD: the peer
	local, remote exchange.Dest
	sendOff       uint64 // of its data in the source region
	recvOff       uint64 // and in the target region
}

// qpCreate describes the queue pair of a lane.
func (s *session) qpCreate() ci.QPCreate {
	return ci.QPCreate{
		Type: ci.QPType(s.o.Service), SendCQ: s.cq, RecvCQ: s.cq,
		QPCaps: ci.QPCaps{SendDepth: s.o.TxDepth, RecvDepth: s.recvDepth(), SendSGE: 1, RecvSGE: 1,
			MaxInline: s.o.Inline},
	}
}

// recvDepth returns the depth of a receive queue. It is at least 1: UD over RDMA CM receives the peer's QP number.
func (s *session) recvDepth() int {
	if s.o.Test.verb != send {
		return 1
	}
	return s.o.RxDepth
}

// createLanes creates the queue pairs, in Init.
func (s *session) createLanes() error {
	for range s.o.QPs {
		qp, err := s.a.pd.NewQP(s.qpCreate(), nil)
		if err != nil {
			if accesslayer.TooDeep(err) {
				err = fmt.Errorf("%w (-t %d, -r %d and -I %d are smaller if given)", err, s.o.TxDepth,
					s.recvDepth(), s.o.Inline)
			}
			return err
		}
		s.undo.add(qp.Destroy)
		if s.o.Service == service(ci.UD) {
			err = qp.Modify(ci.QPFieldsUDInit, ci.QPAttr{State: ci.QPInit, Port: 1, QKey: qkey})
		} else {
			err = qp.Modify(ci.QPFieldsInit, ci.QPAttr{State: ci.QPInit, Port: 1, Access: s.o.Test.access()})
		}
		if err != nil {
			return err
		}
		s.addLane(&lane{qp: qp})
	}
	return nil
}

// addLane appends a lane, with its part of the regions and the destination to send to the peer.
func (s *session) addLane(l *lane) {
	i := uint64(len(s.lanes))
	l.sendOff, l.recvOff = s.sourceOff+i*s.room, s.targetOff+i*s.room
	l.local = exchange.Dest{
		LID: s.a.port.LID, OutReads: uint16(s.reads), QPN: l.qp.Num(),
		PSN: ci.PSN(rand.Uint32() & 0xffffff), GID: s.a.gid,
		RKey: s.target.RKey, VAddr: s.target.Addr + l.recvOff,
	}
	s.lanes = append(s.lanes, l)
}

// connectLanes moves the queue pairs to RTS, each to its peer.
func (s *session) connectLanes() error {
	for _, l := range s.lanes {
		av := ci.AVAttr{Port: 1, Global: true, GRH: ci.GRH{DGID: l.remote.GID, SGIDIndex: s.a.row, HopLimit: 64}}
		rtr := ci.QPAttr{
			State: ci.QPRTR, Primary: ci.Path{AV: av}, MTU: s.hello.MTU, DestNum: l.remote.QPN, RQPSN: l.remote.PSN,
			RespRes:     uint8(s.reads),
			MinRNRTimer: minRNRTimer,
		}
		rts := ci.QPAttr{
			State: ci.QPRTS, SQPSN: l.local.PSN, RetryCount: 7, RNRRetry: 7, InitDepth: uint8(min(s.reads,
				int(l.remote.OutReads))),
			Primary: ci.Path{AckTimeout: ci.TimeExp(s.o.QPTimeout)},
		}
		toRTR, toRTS := ci.QPFieldsRTR, ci.QPFieldsRTS
		switch ci.QPType(s.o.Service) {
		case ci.UC:
			toRTR, toRTS = ci.QPFieldsUCRTR, ci.QPFieldsUCRTS
		case ci.UD:
			toRTR, toRTS = ci.QPFieldsUDRTR, ci.QPFieldsUDRTS
			v, err := s.a.pd.NewAV(av)
			if err != nil {
				return err
			}
			s.undo.add(v.Destroy)
			l.to = ci.Dest{AV: v, QPN: l.remote.QPN, QKey: qkey}
		}
		if err := l.qp.Modify(toRTR, rtr); err != nil {
			return err
		}
		if err := l.qp.Modify(toRTS, rts); err != nil {
			return err
		}
	}
	return nil
}

// cmSpace returns the port space of the queue pairs with -R.
func (o *options) cmSpace() cmid.IDConfig {
	if o.Service == service(ci.UD) {
		return cmid.IDConfig{Space: cmid.UDP}
	}
	return cmid.IDConfig{Space: cmid.TCP}
}

// cmTerms returns the connection parameters. Tests with reads and atomics have as many at a time as the adapter
// supports.
func (s *session) cmTerms() cmid.ConnParam {
	if s.o.Test.verb != read && s.o.Test.verb != atomic {
		return cmid.ConnParam{ResponderResources: -1, InitiatorDepth: -1}
	}
	return cmid.ConnParam{ResponderResources: s.reads, InitiatorDepth: s.reads}
}

// cmQP describes the queue pair of a lane for RDMA CM.
func (s *session) cmQP() cmid.QPConfig {
	c := s.qpCreate()
	return cmid.QPConfig{PD: s.a.pd, Caps: c.QPCaps, SendCQ: c.SendCQ, RecvCQ: c.RecvCQ}
}

// dialLanes connects the queue pairs to a server with RDMA CM.
func (s *session) dialLanes(ctx context.Context, to netip.AddrPort) error {
	for range s.o.QPs {
		id, err := s.dialLane(ctx, to)
		if err != nil {
			return fmt.Errorf("connecting a queue pair: %w", err)
		}
		l := &lane{id: id, qp: id.QP()}
		s.undo.add(id.Close)
		s.addLane(l)
		if s.o.Service != service(ci.UD) {
			continue
		}
		if err := s.setPeer(l, id.Peer()); err != nil {
			return err
		}
		if s.needsQPN() {
			if err := s.sendQPN(ctx, l); err != nil {
				return err
			}
		}
	}
	return nil
}

// dialLane connects a queue pair. It tries again after ECONNREFUSED, because a perftest server begins to listen a
// moment after the barrier.
func (s *session) dialLane(ctx context.Context, to netip.AddrPort) (*cmid.ID, error) {
	const pause = 50 * time.Millisecond
	for {
		id, err := s.a.cm.IDs().Dial(ctx, to, cmid.DialConfig{ID: s.o.cmSpace(), Local: netip.AddrPortFrom(s.a.addr, 0),
			QP: s.cmQP(), Conn: s.cmTerms()})
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return id, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, fmt.Errorf("%w; %w", context.Cause(ctx), err)
		}
	}
}

// acceptLanes accepts the client's queue pairs.
func (s *session) acceptLanes(ctx context.Context, ln *cmid.Listener) error {
	for range s.o.QPs {
		id, err := ln.Accept(ctx)
		if err != nil {
			return fmt.Errorf("waiting for the client's queue pairs (does it have the same -q and -c?): %w",
				errors.Join(err, context.Cause(ctx)))
		}
		s.undo.add(id.Close)
		if err := id.CreateQP(s.cmQP()); err != nil {
			return err
		}
		l := &lane{id: id, qp: id.QP()}
		s.addLane(l)
		if s.needsQPN() {
			if err := s.postRecvs(len(s.lanes)-1, 1, grhLen+qpnLen); err != nil {
				return err
			}
		}
		if err := id.Accept(ctx, s.cmTerms()); err != nil {
			return fmt.Errorf("accepting a queue pair: %w", err)
		}
		if s.needsQPN() {
			if err := s.recvQPN(ctx, l); err != nil {
				return err
			}
		}
	}
	return nil
}

// setPeer creates the address vector of a UD lane.
func (s *session) setPeer(l *lane, p rdmacm.Peer) error {
	v, err := s.a.pd.NewAV(p.AV)
	if err != nil {
		return err
	}
	s.undo.add(v.Destroy)
	l.to = ci.Dest{AV: v, QPN: p.QPN, QKey: p.QKey}
	return nil
}

// qpnLen is the length of the datagram with the client's QP number, which is the immediate data.
const qpnLen = 4

// needsQPN reports whether the server needs the client's QP number, which SIDR does not carry, because it sends
// datagrams, too.
func (s *session) needsQPN() bool {
	return s.o.RDMACM && s.o.Service == service(ci.UD) && (s.o.Both || s.o.Test.latency)
}

// sendQPN sends the datagram with this side's QP number.
func (s *session) sendQPN(ctx context.Context, l *lane) error {
	wr := ci.SendWR{
		Op: ci.OpSend, Flags: ci.SendSignaled |
			ci.SendImmediate, Imm: uint32(l.qp.Num()), To: l.to, SGL: []ci.SGE{s.source.SGE(l.sendOff, qpnLen)},
	}
	if _, err := l.qp.PostSend([]ci.SendWR{wr}); err != nil {
		return err
	}
	if _, err := s.next(ctx, s.wcs[:1]); err != nil {
		return err
	}
	if s.wcs[0].Status != ci.WCSuccess {
		return s.wcs[0].Err()
	}
	return nil
}

// recvQPN receives the client's QP number.
func (s *session) recvQPN(ctx context.Context, l *lane) error {
	if _, err := s.next(ctx, s.wcs[:1]); err != nil {
		return fmt.Errorf("waiting for the client's QP number: %w", err)
	}
	if s.wcs[0].Status != ci.WCSuccess {
		return s.wcs[0].Err()
	}
	if s.wcs[0].Flags&ci.WCImmediate == 0 {
		return errors.New("the client sent a datagram without its QP number: is it perftest?")
	}
	p := l.id.Peer()
	p.QPN, p.QKey = ci.QPN(s.wcs[0].Imm), cmid.QKey
	return s.setPeer(l, p)
}

// hangUp ends the connections of -R: the client disconnects, and the server waits for it. A peer that does not answer
// is no error, because the results are complete.
func (s *session) hangUp(ctx context.Context) {
	for _, l := range s.lanes {
		switch {
		case l.id == nil || s.o.Service == service(ci.UD):
		case s.o.client():
			_ = l.id.Disconnect(ctx)
		default:
			select {
			case <-l.id.Done():
			case <-ctx.Done():
			}
		}
	}
}
