package mads

import (
	"fmt"
	"time"

	"ciddk/ci"
	"ciddk/mad"
)

// RMPP (IBTA volume 1, 13.6), single sided. A message is sent in segments, within a window that begins at one segment
// and that the receiver extends with each ACK. Times and windows are those of Linux, so that both ends give up at the
// same time.
const (
	rmppAckTime     = 2 * time.Second  // sender: time for an ACK, if the message sets none
	rmppSegmentTime = 40 * time.Second // receiver: time for the next segment; then ABORT, total time too long
	rmppDoneTime    = 10 * time.Second // receiver: a finished transfer is kept, to acknowledge repeated segments
	rmppRetries     = 3                // sender: if the message sets none
	rmppBurst       = 16               // sender: segments of one transfer that are queued at a time
	rmppPeerShare   = 4                // one peer may have a quarter of the transfers, of their bytes, and of responses
)

// RMPPError is the reason why a long message was not transferred. The error of Agent.Do wraps it; use errors.As.
type RMPPError struct {
	Status mad.RMPPStatus
	Peer   bool // the peer ended the transfer
}

func (e *RMPPError) Error() string {
	end := "this side"
	if e.Peer {
		end = "the peer"
	}
	return fmt.Sprintf("RMPP transfer ended by %s: %v", end, e.Status)
}

// transfers is the RMPP transfers of an endpoint, whose lock guards them.
type transfers struct {
	e        *endpoint
	out      map[transferKey]*outgoing
	in       map[transferKey]*incoming
	outBytes int
	inBytes  int
	begun    []*incoming       // those that peers began
	shares   map[Source]*share // the share of each source in begun
	answers  map[peer]int      // number of responses being sent to each peer
	done     []*incoming       // finished, the oldest first
}

// share is the part of begun that one source has.
type share struct{ transfers, bytes int }

// transferKey identifies a transfer. method is that of its DATA packets; the packets of its receiver have the opposite
// R bit.
type transferKey struct {
	tid    uint64
	class  mad.Class
	method mad.Method
	peer   peer
}

func (x *transfers) init(e *endpoint) {
	x.e, x.out, x.in = e, make(map[transferKey]*outgoing), make(map[transferKey]*incoming)
	x.shares, x.answers = make(map[Source]*share), make(map[peer]int)
}

// key returns the key of a transfer. If there is a GID, LIDs do not count, since a sender that uses GIDs may not know
// them.
func (x *transfers) key(h *mad.Header, av *ci.AVAttr) transferKey {
	p := x.e.p.peerOf(av)
	if p.gid != (ci.GID{}) {
		p.lid = 0
	}
	return transferKey{h.TID, h.Class, h.Method, p}
}

// window returns the number of segments by which a receiver extends the window.
func (x *transfers) window() uint32 { return uint32(max(len(x.e.posted)/8, 1)) }

// control sends a packet without data. like holds the headers of a packet of the transfer, and r is the RMPP header.
func (x *transfers) control(to *Address, like []byte, seg mad.Segmentation, method mad.Method, r mad.RMPP) {
	e := x.e
	if e.crowded() {
		e.p.count.drop(DropSendQueue)
		return
	}
	var c ci.MAD
	copy(c[:seg.HeaderLen], like)
	c[3] = byte(method)
	r.Version, r.Flags, r.ResponseTime = mad.RMPPVersion, mad.RMPPActive, mad.RMPPNoTime
	r.Put(c[mad.HeaderLen:])
	if _, err := e.enqueue(to, c[:]); err != nil {
		e.p.count.drop(DropSend)
	}
}

// receive handles an RMPP packet. taken is false if the packet is for an agent that implements RMPP itself, or for no
// agent. msg is an unsolicited message that is complete with this packet.
func (x *transfers) receive(h *mad.Header, r *Received, seg mad.Segmentation, p *mad.RMPP) (taken bool, a *agent,
	msg *Received) {
	e := x.e
	e.mu.Lock()
	defer e.unlock()
	key := x.key(h, &r.From.AV)
	back := key
	back.method ^= mad.ResponseMask
	switch p.Type {
	case mad.RMPPAck:
		if o := x.out[back]; o != nil {
			x.ack(o, p)
			return true, nil, nil
		}
	case mad.RMPPStop, mad.RMPPAbort:
		if o := x.out[back]; o != nil {
			x.endOut(o, &RMPPError{Status: x.endStatus(p), Peer: true})
			return true, nil, nil
		}
		if i := x.in[key]; i != nil && !i.done {
			x.endIn(i, &RMPPError{Status: x.endStatus(p), Peer: true})
			return true, nil, nil
		}
	}
	t := e.table.Load()
	if isResponse(h) {
		a = t.agents[uint32(h.TID>>32)]
	} else {
		a = t.find(h, r.MAD)
	}
	switch {
	case a != nil && !a.cfg.RMPP:
		return false, nil, nil
	case p.Type == mad.RMPPAck || p.Type == mad.RMPPStop || p.Type == mad.RMPPAbort:
		e.p.count.drop(DropUnmatched)
		return true, nil, nil
	case a == nil:
		return false, nil, nil
	}
	msg = x.data(a, key, h, r, seg, p)
	return true, a, msg
}

// endStatus returns the status of a STOP or ABORT, or the fault of the packet.
func (x *transfers) endStatus(p *mad.RMPP) mad.RMPPStatus {
	if f := p.Fault(); f != mad.RMPPOK {
		return f
	}
	return p.Status
}

// close ends all transfers without a packet to the peers.
func (x *transfers) close() {
	for _, o := range x.out {
		x.dropOut(o)
	}
	for _, i := range x.in {
		x.dropIn(i)
	}
}

// forget ends the transfers of an agent.
func (x *transfers) forget(a *agent) {
	for _, o := range x.out {
		if o.a == a && o.t == nil { // Do ends its own transfer
			x.abort(o, mad.RMPPUnspecified)
		}
	}
	for _, i := range x.in {
		if i.a == a && !i.done {
			x.refuse(i.r, i.seg, mad.RMPPAbort, mad.RMPPUnspecified)
			x.dropIn(i)
		}
	}
}
