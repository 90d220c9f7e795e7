package cm

import (
	"bytes"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
)

// receiveREQ takes a REQ.
func (p *port) receiveREQ(r *mads.Received, h *mad.Header, req *mad.REQ) {
	m := p.m
	id := peerID{req.LocalCAGUID, req.LocalCommID}
	m.mu.Lock()
	old := m.peers[id]
	m.mu.Unlock()
	if old != nil {
		old.receiveREQ(p, r, h, req)
		return
	}
	q, reason, info := p.validateREQ(r, req)
	if reason != 0 {
		m.count.drop(DropInvalid)
		p.rejectREQ(r, h, req, reason, info)
		return
	}
	if p.matchPeerRequest(r, h, q) {
		return
	}
	c := newConn(m)
	c.state, c.port, c.to = StateREQRcvd, p, r.From
	c.remoteID, c.tid = req.LocalCommID, h.TID
	c.req, c.peerQPKnown = q.Request, true
	c.alternate, c.alternateAck = q.alternate, ackTimeoutOf(&req.Alternate)
	due := m.clock.Elapsed() + max(c.responseTime()/2, 1)
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
	m.wheel.Set(&c.timer, due) // if the consumer has answered already, the timer has no effect
}

// admitted is the result of admit for an admitted request.
const admitted = drops

// admit adds a request to the tables and passes it to a listener. For a request that is not admitted, it returns how
// the request is counted and the reason with which it is rejected: 0 to drop it. If the request makes an existing
// connection stale, admit returns that, too. The caller holds m.mu.
func (m *Manager) admit(c *conn) (stale *conn, drop Drop, reason mad.RejReason) {
	req := &c.req.REQ
	c.qp.StartPSN = m.ids.psn() // used if AcceptConfig has none
	if m.closed {
		return nil, DropUnserved, mad.RejInvalidServiceID // as without a listener: the agents are being closed
	}
	id, qp := peerID{req.LocalCAGUID, req.LocalCommID}, peerQP{req.LocalCAGUID, req.LocalQPN}
	if o := m.peerQPs[qp]; o != nil {
		return o, DropStale, mad.RejStaleConnection
	}
	l := m.listeners.find(c.req.target(req.ServiceID))
	if l == nil {
		return nil, DropUnserved, mad.RejInvalidServiceID
	}
	now := m.clock.Elapsed()
	m.flooded = m.flow.add(now)
	unfinished := m.unfinished.add(&c.from, now)
	if !l.hasRoom() && !l.makeRoom(unfinished) || !m.addPending(c) {
		drop, reason = DropOverload, m.overloadReason()
		return nil, drop, reason
	}
	if sameID, _ := m.insertPeer(c, id, qp); sameID != nil {
		m.removePending(c) // a copy that arrives on another port at the same time; the other copy is served
		return nil, DropLate, 0
	}
	c.id = m.newID()
	m.conns[c.id] = c
	l.enqueue(c)
	return nil, admitted, 0
}

// rejectREQ rejects a REQ without keeping state; duplicates are rejected again.
func (p *port) rejectREQ(r *mads.Received, h *mad.Header, req *mad.REQ, reason mad.RejReason, info []byte) {
	j := mad.REJ{RemoteCommID: req.LocalCommID, Message: mad.WhichREQ, Reason: reason, InfoLength: uint8(len(info))}
	copy(j.Info[:], info)
	p.reply(&r.From, encode(h.TID, &j))
}

// receiveREQ takes a REQ with the communication ID of this connection's peer. It is a copy of the REQ that created the
// connection, or it comes from a peer that has lost the connection.
func (c *conn) receiveREQ(p *port, r *mads.Received, h *mad.Header, req *mad.REQ) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := msgOtherREQ
	switch {
	case !c.active && c.isCopy(req):
		k = msgREQ
	case c.active && c.peerConfig != nil && req.ServiceID == c.req.ServiceID:
		c.m.count.drop(DropLate) // the peer sent it before it became the passive end
		return
	}
	switch reactions[c.state][k] {
	case repeat:
		c.resend()
	case rejectStale:
		if c.sentAttr() == mad.AttrREJ && k == msgREQ {
			// A peer that still repeats its REQ has not received a REP. Linux ignores a REJ of a REP then.
			c.sent[mad.HeaderLen+rejWhich] = byte(mad.WhichREQ) << 6
			c.resend()
			return
		}
		c.m.count.drop(DropStale)
		p.rejectREQ(r, h, req, mad.RejStaleConnection, nil)
	case endStale:
		c.m.count.drop(DropStale)
		p.rejectREQ(r, h, req, mad.RejStaleConnection, nil)
		c.endStaleLocked(&r.From)
	default:
		c.m.count.drop(DropLate)
	}
}

// rejWhich is the offset of the field of a REJ that identifies the rejected message (table 110).
const rejWhich = 8

// validREQ is a REQ that this CA can serve.
type validREQ struct {
	Request
	alternate *route
}

// validateREQ checks a REQ against the capabilities of this CA. If the CA cannot serve it, validateREQ returns the
// reject reason and additional information with an acceptable value (12.6.7.2).
func (p *port) validateREQ(r *mads.Received, req *mad.REQ) (q validREQ, reason mad.RejReason, info []byte) {
	attr := p.a.Attr()
	if !isSupported(attr, req.Service) {
		return q, mad.RejInvalidTransport, nil
	}
	primary, reason, info := p.returnPath(&req.Primary, ci.PKey(req.PKey), 0, ci.MTU(req.PathMTU), &r.From)
	if reason != 0 {
		return q, reason, info
	}
	port := &attr.Ports[primary.Port.Num-1]
	if most := port.MTUOf(primary.AV.SL); req.PathMTU.Bytes() == 0 || ci.MTU(req.PathMTU) > most {
		return q, mad.RejInvalidMTU, []byte{byte(most)}
	}
	if _, _, err := p.a.FindPKey(primary.Port.Num, ci.PKey(req.PKey)); err != nil {
		return q, mad.RejUnsupported, nil // there is no reason for partitions
	}
	q.Request = Request{REQ: *req, Primary: primary.Path, From: r.From}
	if !req.HasAlternate() {
		return q, 0, nil
	}
	q.alternate, reason, info = p.returnPath(&req.Alternate, ci.PKey(req.PKey), 0, ci.MTU(req.PathMTU), &r.From)
	if reason != 0 {
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

// isSupported reports whether a CA has a transport service that this package connects. All CAs have RC.
func isSupported(attr *ci.CAAttr, s mad.TransportService) bool {
	return s == mad.ServiceRC || s == mad.ServiceUC && attr.Caps.Has(ci.CapUC)
}

// matchPeerRequest passes a REQ to the peer-to-peer request of this end that it matches. It returns false if there is
// none. Both ends choose the same of the two requests to become the connection: the one with the larger CA GUID, then
// the one with the larger QPN (12.10.4).
func (p *port) matchPeerRequest(r *mads.Received, h *mad.Header, q validREQ) bool {
	m := p.m
	m.mu.Lock()
	var matches []*conn
	for _, c := range m.peerRequests {
		if c.req.ServiceID == q.ServiceID && c.isMatch(&q.REQ) {
			matches = append(matches, c)
		}
	}
	m.mu.Unlock()
	for _, c := range matches {
		if c.becomePassive(p, r, h, q) {
			return true
		}
	}
	return false
}

// isMatch reports whether a REQ matches this peer-to-peer request. It reads only fields that do not change while the
// connection is in m.peerRequests.
func (c *conn) isMatch(req *mad.REQ) bool {
	cfg := c.peerConfig
	if !bytes.HasPrefix(req.PrivateData[cfg.Offset:], cfg.Compare) || req.Service != c.req.Service {
		return false
	}
	ours, theirs := &c.req.REQ.Primary, &req.Primary
	if ours.RemoteLID != permissiveLID {
		return ours.RemoteLID == theirs.LocalLID
	}
	return ours.RemoteGID == theirs.LocalGID
}

// becomePassive makes this end of a peer-to-peer request the passive end of the peer's REQ, if the peer's REQ becomes
// the connection. It returns false if this end no longer waits for a REQ.
func (c *conn) becomePassive(p *port, r *mads.Received, h *mad.Header, q validREQ) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != StateREQSent && c.state != StateREPWait {
		return false // it has been answered since it was found
	}
	ours, theirs := c.req.LocalCAGUID, q.LocalCAGUID
	if ours > theirs || ours == theirs && c.req.LocalQPN > q.LocalQPN {
		c.m.count.drop(DropLate) // our REQ becomes the connection, and the peer answers it
		if c.cause != nil {      // it came too early for the peer
			c.cause = nil
			c.resend()
		}
		return true
	}
	m := c.m
	m.mu.Lock()
	sameID, sameQP := m.insertPeer(c, peerID{theirs, q.LocalCommID}, peerQP{theirs, q.LocalQPN})
	c.from = mads.SourceOf(&r.From.AV)
	isNew := sameID == nil && sameQP == nil
	ok := isNew && m.addPending(c)
	if ok {
		m.removePeerRequest(c)
	} else if isNew {
		delete(m.peers, c.peer)
		m.forgetQP(c)
	}
	m.mu.Unlock()
	if !ok {
		return false
	}
	c.active, c.peerQPKnown = false, true
	c.state, c.cause = StateREQRcvd, nil
	c.port, c.to = p, r.From
	c.remoteID, c.tid = q.LocalCommID, h.TID
	c.req, c.sent = q.Request, nil
	c.alternate, c.alternateAck = q.alternate, ackTimeoutOf(&q.REQ.Alternate)
	c.setDue(c.responseTime() / 2)
	c.finish(nil)
	return true
}
