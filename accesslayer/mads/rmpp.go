package mads

import (
	"fmt"
	"time"

	"ciddk/ci"
	"ciddk/mad"
)

// RMPP (IBTA volume 1, 13.6), single sided: a message goes out in segments, by a window that begins at one segment and that the receiver
// opens further with each ACK. Times and windows are those of Linux, so that both ends agree on who gives up first.
const (
	rmppAckTime     = 2 * time.Second  // sender: for an ACK, if the message says nothing
	rmppSegmentTime = 40 * time.Second // receiver: for the next segment; then ABORT, total time too long
	rmppDoneTime    = 10 * time.Second // receiver: a finished transfer is remembered, to acknowledge what comes again
	rmppRetries     = 3                // sender: of a message that says nothing
	rmppBurst       = 16               // sender: segments of one transfer in the send queue at once
	rmppPeerShare   = 4                // one peer may have a quarter of the transfers that peers begin, of the bytes of these, and of the answers on their way
)

// RMPPError says that a long message did not get through. It is in the error of Agent.Do: errors.As.
type RMPPError struct {
	Status mad.RMPPStatus
	Peer   bool // who gave up
}

func (e *RMPPError) Error() string {
	who := "this side"
	if e.Peer {
		who = "the peer"
	}
	return fmt.Sprintf("RMPP transfer ended by %s: %v", who, e.Status)
}

// transfers are the RMPP transfers of an endpoint, whose lock guards them.
type transfers struct {
	e        *endpoint
	out      map[transferKey]*outgoing
	in       map[transferKey]*incoming
	outBytes int
	inBytes  int
	begun    []*incoming       // these
	askedBy  map[Source]*share // of these, each source's
	answers  map[peer]int      // to each peer, on their way
	done     []*incoming       // finished, the oldest first
}

// share is what a source has of the transfers that peers began.
type share struct{ transfers, bytes int }

// transferKey names a transfer: by the method of its DATA, which its receiver's packets have with the R bit the other way round.
type transferKey struct {
	tid    uint64
	class  mad.Class
	method mad.Method
	peer   peer
}

func (x *transfers) init(e *endpoint) {
	x.e, x.out, x.in = e, make(map[transferKey]*outgoing), make(map[transferKey]*incoming)
	x.askedBy, x.answers = make(map[Source]*share), make(map[peer]int)
}

// key: where there is a GID, LIDs do not count, which a sender by GID may not know.
func (x *transfers) key(h *mad.Header, av *ci.AVAttr) transferKey {
	p := x.e.p.peerOf(av)
	if p.gid != (ci.GID{}) {
		p.lid = 0
	}
	return transferKey{h.TID, h.Class, h.Method, p}
}

// window is by how much a receiver opens the window.
func (x *transfers) window() uint32 { return uint32(max(len(x.e.posted)/8, 1)) }

// control sends a packet without data: the headers of one of the transfer's, RMPP header r.
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

// receive takes a packet of RMPP; false if it is for an agent that does RMPP itself, or for nobody. An unsolicited message that is
// complete now is returned to be delivered.
func (x *transfers) receive(h *mad.Header, r *Received, seg mad.Segmentation, p *mad.RMPP) (taken bool, a *agent, msg *Received) {
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
			x.endOut(o, &RMPPError{Status: x.verdict(p), Peer: true})
			return true, nil, nil
		}
		if i := x.in[key]; i != nil && !i.done {
			x.endIn(i, &RMPPError{Status: x.verdict(p), Peer: true})
			return true, nil, nil
		}
	}
	t := e.table.Load()
	if response(h) {
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

// verdict is the status of a STOP or ABORT, or that it is none.
func (x *transfers) verdict(p *mad.RMPP) mad.RMPPStatus {
	if f := p.Fault(); f != mad.RMPPOK {
		return f
	}
	return p.Status
}

// close ends all transfers, without a word to the peers.
func (x *transfers) close() {
	for _, o := range x.out {
		x.dropOut(o)
	}
	for _, i := range x.in {
		x.dropIn(i)
	}
}

// forget ends those of an agent.
func (x *transfers) forget(a *agent) {
	for _, o := range x.out {
		if o.a == a && o.t == nil { // Do ends its own
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
