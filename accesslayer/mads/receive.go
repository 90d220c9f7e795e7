package mads

import (
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/sma"
)

// inbox is a received datagram in one allocation.
type inbox struct {
	Received
	data ci.MAD
}

// receive handles the content of a receive slot: 40 bytes for a GRH, then the datagram.
func (e *endpoint) receive(wc *ci.WC, slot []byte) {
	c := &e.p.count
	c.received.Add(1)
	b := slot[grhArea:]
	var h mad.Header
	h.Parse(b)
	switch {
	case wc.Length != recvSize:
		c.drop(DropLength)
		return
	case h.BaseVersion != mad.BaseVersion:
		c.drop(DropVersion)
		return
	case isSubnet(h.Class) != (e.num == 0):
		c.drop(DropClass)
		return
	}
	in := new(inbox)
	if !e.source(wc, slot[:grhArea], &in.Received) {
		c.drop(DropAddress)
		return
	}
	in.data = ci.MAD(b)
	in.MAD = in.data[:]
	if h.Class == mad.ClassSubnetDirected {
		if e.p.h.sma.Arrive(e.p.id.Num, &in.data).Action != sma.Deliver {
			c.drop(DropHops)
			return
		}
	}
	e.dispatch(&h, &in.Received)
}

// dispatch passes a valid datagram to its receiver.
func (e *endpoint) dispatch(h *mad.Header, r *Received) {
	if seg, ok := mad.SegmentationOf(h.Class); ok {
		var p mad.RMPP
		if p.Parse(r.MAD[mad.HeaderLen:]); p.Active() {
			if taken, a, msg := e.transfers.receive(h, r, seg, &p); taken {
				if msg != nil {
					a.deliver(msg)
				}
				return
			}
		}
	}
	if isResponse(h) {
		if e.num != 0 || h.Method != mad.TrapRepress || !e.repress(h, r) {
			e.respond(h, r)
		}
	} else if a := e.table.Load().find(h, r.MAD); a != nil {
		a.deliver(r)
	} else {
		e.unclaimed(h, r)
	}
}

// unclaimed handles a request that no agent has registered for. The HCA executes it, or else it is answered as
// unsupported (IBTA volume 1, 13.4.7, table 112; as Linux does), or dropped.
func (e *endpoint) unclaimed(h *mad.Header, r *Received) {
	if h.Method != mad.Get && h.Method != mad.Set {
		e.p.count.drop(DropUnclaimed)
		return
	}
	isConsumed := e.num == 0 && e.p.hasOwnAgent()
	if isConsumed && h.Attribute != mad.AttrSMInfo {
		e.p.consumed(h)
		return
	}
	e.mu.Lock()
	defer e.unlock()
	if isConsumed { // no manager is here, and an adapter's agent leaves SMInfo to managers
		e.answer(h, r, mad.StatusBadMethodAttribute)
		return
	}
	if e.num == 0 || h.Class == mad.ClassPerformance && e.p.h.a.Attr().Caps.Has(ci.CapLocalMAD) {
		c := ci.MAD(r.MAD)
		e.local.take(r, &c)
		return
	}
	status := mad.StatusBadMethodAttribute
	if e.table.Load().hasClass(h.Class) && e.table.Load().claims[claimOf(h, r.MAD)] == nil {
		status = mad.StatusBadVersion
	}
	e.answer(h, r, status)
}

// canReply reports whether a reply to an unsolicited datagram may be sent now, and counts it if so. e.mu is held.
func (e *endpoint) canReply(to *Address) bool {
	if e.replies.Allow(&to.AV, e.p.m.al.Clock().Elapsed()) {
		return true
	}
	e.p.count.drop(DropReply)
	return false
}

// answer returns a request with a status. e.mu is held.
func (e *endpoint) answer(h *mad.Header, r *Received, status uint16) {
	if !e.canReply(&r.From) {
		return
	}
	c := ci.MAD(r.MAD)
	g := *h
	g.Method, g.Status = mad.GetResp, status
	if h.Class == mad.ClassSubnetDirected {
		g.Status |= mad.StatusDirection
		g.ClassSpecific = uint16(c[6])<<8 | uint16(c[7])
	}
	g.Put(c[:])
	if _, ok := mad.SegmentationOf(h.Class); ok {
		clear(c[mad.HeaderLen:mad.RMPPEnd]) // the reply is one datagram
	}
	e.reply(r, &c)
}

// reply sends a reply of the port itself. e.mu is held.
func (e *endpoint) reply(r *Received, c *ci.MAD) {
	if e.p.h.sma.Return(e.p.id.Num, c).Action != sma.Reply {
		e.p.count.drop(DropHops)
		return
	}
	if e.crowded() {
		e.p.count.drop(DropSendQueue)
		return
	}
	if _, err := e.enqueue(&r.From, c[:]); err != nil {
		e.p.count.drop(DropSend)
	}
}
