package cm

import (
	"bytes"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
)

// request takes a REQ.
func (p *port) request(r *mads.Received, h *mad.Header, req *mad.REQ) {
	m := p.m
	id := peerID{req.LocalCAGUID, req.LocalCommID}
	m.mu.Lock()
	old := m.peers[id]
	m.mu.Unlock()
	if old != nil {
		old.requested(p, r, h, req)
		return
	}
	q, reason, info := p.judge(r, req)
	if reason != 0 {
		m.count.drop(DropInvalid)
		p.rejectREQ(r, h, req, reason, info)
		return
	}
	if p.meet(r, h, q) {
		return
	}
	c := newConn(m)
	c.state, c.port, c.to, c.remoteID, c.tid, c.req, c.answered = StateREQRcvd, p, r.From, req.LocalCommID, h.TID, q.Request, true
	c.alternate, c.altAck = q.alternate, ackTimeoutOf(&req.Alternate)
	due := m.clock.Now() + max(c.patience()/2, 1)
	c.due = due
	c.from = mads.SourceOf(&r.From.AV)
	m.mu.Lock()
	stale, drop, reason := m.admit(c)
	m.mu.Unlock()
	if drop != admitted {
		m.count.drop(drop)
		if reason != 0 {
			p.rejectREQ(r, h, req, reason, nil)
		}
		if stale != nil {
			stale.endStale(&r.From)
		}
		return
	}
	m.wheel.Set(&c.timer, due) // a consumer may have been faster: then it fires for nothing
}

// admitted is no drop.
const admitted = drops

// admit enters a request in the tables and hands it to a listener, or tells why not, and what its sender is to be told; m.mu is held.
func (m *Manager) admit(c *conn) (stale *conn, drop Drop, reason mad.RejReason) {
	req := &c.req.REQ
	c.qp.StartPSN = m.ids.psn() // if Accept has no opinion
	if m.closed {
		return nil, DropUnserved, mad.RejInvalidServiceID
	}
	if o := m.peerQPs[peerQP{req.LocalCAGUID, req.LocalQPN}]; o != nil {
		return o, DropStale, mad.RejStaleConnection
	}
	l := m.listeners.find(c.req.target(req.ServiceID))
	if l == nil {
		return nil, DropUnserved, mad.RejInvalidServiceID
	}
	now := m.clock.Now()
	m.flooded = m.flow.add(now)
	debt := m.debts.request(&c.from, now)
	if !l.hasRoom() && !l.makeRoom(debt) || !m.countPending(c) {
		drop, reason = m.overload()
		return nil, drop, reason
	}
	if sameID, _ := m.insertPeer(c, peerID{req.LocalCAGUID, req.LocalCommID}, peerQP{req.LocalCAGUID, req.LocalQPN}); sameID != nil {
		m.settle(c) // two copies at a time, on two ports: the other one is served
		return nil, DropLate, 0
	}
	c.id = m.newID()
	m.conns[c.id] = c
	l.enqueue(c)
	return nil, admitted, 0
}

// rejectREQ refuses a request of which nothing is remembered: its copies are refused again.
func (p *port) rejectREQ(r *mads.Received, h *mad.Header, req *mad.REQ, reason mad.RejReason, info []byte) {
	j := mad.REJ{RemoteCommID: req.LocalCommID, Message: mad.WhichREQ, Reason: reason, InfoLength: uint8(len(info))}
	copy(j.Info[:], info)
	p.reply(&r.From, encode(h.TID, &j))
}

// requested is a REQ whose communication ID this connection's peer has: a copy of the one that made the connection, or from a peer that
// has forgotten it.
func (c *conn) requested(p *port, r *mads.Received, h *mad.Header, req *mad.REQ) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := msgOtherREQ
	switch {
	case !c.active && c.isCopy(req):
		k = msgREQ
	case c.active && c.asking != nil && req.ServiceID == c.req.ServiceID:
		c.m.count.drop(DropLate) // what the peer asked with before it became the passive end
		return
	}
	switch reactions[c.state][k] {
	case repeat:
		c.again()
	case rejectStale:
		if c.sentAttr() == mad.AttrREJ && k == msgREQ {
			// Who still asks has not seen a REP: a REJ of one is none of its business, and Linux would not take it.
			c.sent[mad.HeaderLen+rejWhich] = byte(mad.WhichREQ) << 6
			c.again()
			return
		}
		c.m.count.drop(DropStale)
		p.rejectREQ(r, h, req, mad.RejStaleConnection, nil)
	case endStale:
		c.m.count.drop(DropStale)
		p.rejectREQ(r, h, req, mad.RejStaleConnection, nil)
		c.goStale(&r.From)
	default:
		c.m.count.drop(DropLate)
	}
}

// rejWhich is where a REJ says which message it refuses (table 110).
const rejWhich = 8

// judged is a request that can be served.
type judged struct {
	Request
	alternate *way
}

// judge holds a request against what this CA can do: the reasons that are the manager's to give, with what would do instead (12.6.7.2).
func (p *port) judge(r *mads.Received, req *mad.REQ) (q judged, reason mad.RejReason, info []byte) {
	if req.Service != mad.ServiceRC && req.Service != mad.ServiceUC {
		return q, mad.RejInvalidTransport, nil
	}
	attr := p.a.Attr()
	if !supports(attr, req.Service) {
		return q, mad.RejInvalidTransport, nil
	}
	w, reason, info := p.pathFrom(&req.Primary, ci.PKey(req.PKey), 0, ci.MTU(req.PathMTU), &r.From)
	if reason != 0 {
		return q, reason, info
	}
	at := &attr.Ports[w.Port.Num-1]
	if req.PathMTU.Bytes() == 0 || ci.MTU(req.PathMTU) > at.MTU {
		return q, mad.RejInvalidMTU, []byte{byte(at.MTU)}
	}
	if _, _, err := p.a.FindPKey(w.Port.Num, ci.PKey(req.PKey)); err != nil {
		return q, mad.RejUnsupported, nil // no reason is for partitions
	}
	q.Request = Request{REQ: *req, Primary: w.Path, From: r.From}
	if !req.HasAlternate() {
		return q, 0, nil
	}
	if q.alternate, reason, info = p.pathFrom(&req.Alternate, ci.PKey(req.PKey), 0, ci.MTU(req.PathMTU), &r.From); reason != 0 {
		return q, reason + alternateReasons, info
	}
	index, _, err := p.a.FindPKey(q.alternate.Port.Num, ci.PKey(req.PKey))
	if err != nil {
		return q, mad.RejUnsupported, nil
	}
	q.alternate.pkeyIndex = index
	alt := q.alternate.Path
	q.Request.Alternate = &alt
	return q, 0, nil
}

// supports tells whether a CA has a transport; RC needs no claim.
func supports(attr *ci.CAAttr, s mad.TransportService) bool {
	return s == mad.ServiceRC || attr.Caps.Has(ci.CapUC)
}

// meet finds the peer-to-peer request of ours that a request is the like of. Which of both becomes the connection is decided alike
// at both ends: that of the greater CA GUID, then of the greater QPN (12.10.4).
func (p *port) meet(r *mads.Received, h *mad.Header, q judged) bool {
	m := p.m
	m.mu.Lock()
	var like []*conn
	for _, c := range m.askingPeer {
		if c.req.ServiceID == q.ServiceID && c.wants(&q.REQ) {
			like = append(like, c)
		}
	}
	m.mu.Unlock()
	for _, c := range like {
		if c.meet(p, r, h, q) {
			return true
		}
	}
	return false
}

// wants tells whether a peer's request is what a peer-to-peer request waits for. What it reads does not change while it is in m.askingPeer.
func (c *conn) wants(req *mad.REQ) bool {
	w := c.asking
	if !bytes.HasPrefix(req.PrivateData[w.Offset:], w.Compare) || req.Service != c.req.Service {
		return false
	}
	ours, theirs := &c.req.REQ.Primary, &req.Primary
	if ours.RemoteLID != permissiveLID {
		return ours.RemoteLID == theirs.LocalLID
	}
	return ours.RemoteGID == theirs.LocalGID
}

// meet makes the connection of a peer-to-peer request, if it waits still.
func (c *conn) meet(p *port, r *mads.Received, h *mad.Header, q judged) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != StateREQSent && c.state != StateREPWait {
		return false
	}
	ours, theirs := c.req.LocalCAGUID, q.LocalCAGUID
	if ours > theirs || ours == theirs && c.req.LocalQPN > q.LocalQPN {
		c.m.count.drop(DropLate) // ours goes on, and the peer answers it
		if c.why != nil {        // it was too early before: now is the time
			c.why = nil
			c.again()
		}
		return true
	}
	m := c.m
	m.mu.Lock()
	sameID, sameQP := m.insertPeer(c, peerID{theirs, q.LocalCommID}, peerQP{theirs, q.LocalQPN})
	c.from = mads.SourceOf(&r.From.AV)
	ok := sameID == nil && sameQP == nil && m.countPending(c)
	if ok {
		m.forgetAsking(c)
	} else if sameID == nil && sameQP == nil {
		delete(m.peers, c.peer)
		m.forgetQP(c)
	}
	m.mu.Unlock()
	if !ok {
		return false
	}
	c.active, c.answered, c.state, c.why = false, true, StateREQRcvd, nil
	c.port, c.to, c.remoteID, c.tid, c.req, c.sent = p, r.From, q.LocalCommID, h.TID, q.Request, nil
	c.alternate, c.altAck = q.alternate, ackTimeoutOf(&q.REQ.Alternate)
	c.setDue(c.patience() / 2)
	c.finish(nil)
	return true
}
