package rvt

import (
	"sync/atomic"
	"time"

	"ciddk/ci"
	"ciddk/ci/driver"
	"ciddk/ci/wrrules"
	"ciddk/wire"
)

// endpoint is what the halves of a QP, the requester and the responder, share: identity, queues, state and path. The
// token of the QP guards the fields below state.
type endpoint struct {
	// What each packet needs stands together, for the cache.
	dev      *device
	pd       *PD
	port     *port
	route    Route
	peer     Addr
	local    ci.GID // that packets of the peer are for; zero: any
	num      ci.QPN
	mtu      uint32
	mtus     []ci.MTU // of datagrams by service level; empty: mtu
	pkey     ci.PKey
	service  wire.Service
	taken    bool          // slots of the receive queue are to be released
	state    atomic.Uint32 // ci.QPState, written with the token held
	sendCQ   *CQ
	recvCQ   *CQ
	srq      *SRQ
	sq       SendRing
	source   RecvSource     // rq or srq
	takes    RecvBatch      // rq, if it has that
	states   SharedSendRing // sq, if its producer is another process
	origin   origin
	notifyAt time.Duration // when the next congestion notification may be sent
	attr     ci.QPAttr

	home  atomic.Pointer[port] // where packets may come in: the primary path's port,
	home2 atomic.Pointer[port] // and the alternate's

	ackWaits atomic.Bool // an acknowledgement is due that waits for the consumer's next post
	lateSQ   bool        // sq is made when a state is entered in which sends are posted
	typ      ci.QPType
	caps     ci.QPCaps
	rules    wrrules.Rules // of the requests of the send queue
	flags    ci.QPFlags
	notify   driver.Notifier
	rq       RecvRing // nil with an SRQ

	altPort *port
	altRt   Route
	altPeer Addr
	altGID  ci.GID // as local
	apm     migration
}

// current returns the state.
func (e *endpoint) current() ci.QPState { return ci.QPState(e.state.Load()) }

// setState changes the state.
func (e *endpoint) setState(s ci.QPState) {
	e.attr.State = s
	if e.lateSQ && s >= ci.QPRTS {
		e.makeSendRing()
	}
	e.state.Store(uint32(s))
	if e.states != nil {
		e.states.SetState(s)
	}
	if f := e.dev.cfg.Ops.QPState; f != nil {
		f(e.num, s)
	}
}

// makeSendRing makes the send ring of a QP that was created without one, and whose memory is counted. The caller stores
// a state in which posts are taken afterwards: a poster that sees the state sees the ring.
func (e *endpoint) makeSendRing() {
	e.lateSQ = false
	sq, err := e.dev.cfg.Rings.SendRing(e.caps.SendDepth, e.caps.SendSGE, e.caps.MaxInline, nil)
	if err == nil { // else posts find it full
		e.sq = sq
	}
}

// releaseRecvs frees the slots of the receive buffers taken.
func (e *endpoint) releaseRecvs() {
	if e.taken {
		e.taken = false
		e.takes.Release()
	}
}

// recvPD returns the domain that receive buffers are checked against: that of the shared receive queue, which need not
// be the QP's (IBTA volume 1, 10.2.9).
func (e *endpoint) recvPD() *PD {
	if e.srq != nil {
		return e.srq.pd
	}
	return e.pd
}

// loadPort copies what the QP keeps of its port. This is the P_Key; if the port has no entry of that index any more,
// the copy is a key that matches no other. For datagrams, which have no path of their own, it is also the port's
// present MTUs (IBTA volume 1, 9.8.3). A connection keeps the MTU of its path (11.2.5.2).
func (e *endpoint) loadPort() {
	if e.port == nil {
		return
	}
	e.pkey, _ = e.port.pkey(e.attr.Primary.PKeyIndex)
	if e.service == wire.UD {
		a := e.port.attr.Load()
		e.mtu, e.mtus = uint32(a.MTU.Bytes()), a.MTUs
	}
}

// datagramMTU returns the most bytes of payload of a datagram with a service level.
func (e *endpoint) datagramMTU(sl ci.SL) uint32 {
	if int(sl) >= len(e.mtus) {
		return e.mtu
	}
	return min(e.mtu, uint32(e.mtus[sl].Bytes()))
}

// receivesAt reports whether the QP takes packets that come in at p.
func (e *endpoint) receivesAt(p *port) bool {
	return e.home.Load() == p || e.home2.Load() == p
}

// packets returns the number of packets of a message of n bytes.
func (e *endpoint) packets(n uint32) uint32 {
	if n == 0 {
		return 1
	}
	return uint32((uint64(n) + uint64(e.mtu) - 1) / uint64(e.mtu))
}

// clearPath forgets the path.
func (e *endpoint) clearPath() {
	e.port, e.altPort = nil, nil
	e.route, e.altRt = nil, nil
	e.home.Store(nil)
	e.home2.Store(nil)
	e.peer, e.altPeer, e.apm = Addr{}, Addr{}, migration{}
	e.local, e.altGID = ci.GID{}, ci.GID{}
	e.mtu, e.mtus, e.pkey = 0, nil, 0
	e.resetEntropy()
}
