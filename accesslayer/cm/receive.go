package cm

import (
	"bytes"
	"encoding/binary"
	"errors"

	"ciddk/accesslayer/mads"
	"ciddk/mad"
)

// receive takes a datagram. It is the OnReceive function of the port's agents and does not block.
func (p *port) receive(r *mads.Received) {
	m := p.m
	h, msg, err := mad.ParseCM(r.MAD)
	if err != nil {
		m.count.drop(DropMalformed)
		if errors.Is(err, mad.ErrVersion) && h.BaseVersion == mad.BaseVersion && h.Method == mad.Send {
			p.rejectVersion(r, &h)
		}
		return
	}
	m.count.received[h.Attribute-firstAttr].Add(1)
	switch msg := msg.(type) {
	case *mad.REQ:
		p.receiveREQ(r, &h, msg)
		return
	case *mad.SIDRREQ:
		p.receiveSIDRREQ(r, &h, msg)
		return
	case *mad.SIDRREP:
		p.receiveSIDRREP(r, msg)
		return
	}
	k, ours, theirs := kind(msg)
	if k == messages {
		m.count.drop(DropMalformed)
		return
	}
	c := m.find(msg, ours)
	if c == nil || !c.receive(r, &h, k, ours, theirs, msg) {
		p.replyUnknown(r, &h, msg)
	}
}

// find returns the connection of a message, or nil. A REJ with reason timeout may come from a peer that never got our
// first message and does not have our ID. It is matched by the peer's CA GUID and ID (12.6.7.2).
func (m *Manager) find(msg mad.CMMessage, ours uint32) *conn {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c := m.conns[ours]; c != nil {
		return c
	}
	if j, ok := msg.(*mad.REJ); ok && j.Reason == mad.RejTimeout && j.InfoLength >= 8 {
		return m.peers[peerID{ca: binary.BigEndian.Uint64(j.Info[:]), id: j.LocalCommID}]
	}
	return nil
}

// rejectVersion rejects a REQ or REP of another class version. The communication IDs are the first fields in all
// versions.
func (p *port) rejectVersion(r *mads.Received, h *mad.Header) {
	j := mad.REJ{Reason: mad.RejClassVersion, InfoLength: 1,
		RemoteCommID: binary.BigEndian.Uint32(r.MAD[mad.HeaderLen:])}
	j.Info[0] = mad.ClassVersionCM
	switch h.Attribute {
	case mad.AttrREQ:
		j.Message = mad.WhichREQ
	case mad.AttrREP:
		j.Message, j.LocalCommID = mad.WhichREP, binary.BigEndian.Uint32(r.MAD[mad.HeaderLen+4:])
	default:
		return
	}
	p.reply(&r.From, encode(h.TID, &j))
}

// replyUnknown answers a message for no connection if its sender waits for an answer.
func (p *port) replyUnknown(r *mads.Received, h *mad.Header, msg mad.CMMessage) {
	p.m.count.drop(DropUnknown)
	var answer mad.CMMessage
	switch msg := msg.(type) {
	case *mad.DREQ: // there is no connection, so the peer need not repeat its DREQ (12.9.7)
		answer = &mad.DREP{LocalCommID: msg.RemoteCommID, RemoteCommID: msg.LocalCommID}
	case *mad.REP: // the sender finds its connection by both IDs, as Linux does
		answer = &mad.REJ{LocalCommID: msg.RemoteCommID, RemoteCommID: msg.LocalCommID, Message: mad.WhichREP,
			Reason: mad.RejInvalidCommID}
	case *mad.LAP:
		answer = &mad.APR{LocalCommID: msg.RemoteCommID, RemoteCommID: msg.LocalCommID, Status: mad.APRInvalidCommID}
	default:
		return
	}
	p.reply(&r.From, encode(h.TID, answer))
}

// receive reacts to a message. It returns false if the message is not from this connection's peer.
func (c *conn) receive(r *mads.Received, h *mad.Header, k message, ours, theirs uint32, msg mad.CMMessage) bool {
	c.mu.Lock()
	stale, ok := c.react(r, h, k, ours, theirs, msg)
	c.mu.Unlock()
	if stale != nil {
		stale.endStale(&r.From)
	}
	return ok
}

// isFromPeer reports whether a message comes from the peer, as far as that can be checked. The first message of a peer,
// and a REJ that names only one of the two IDs, must come from the peer's port. A REJ that does not name our ID comes
// from a peer without an answer from this end, so it does not apply to an established connection. The caller holds
// c.mu.
func (c *conn) isFromPeer(k message, ours, theirs uint32, from *mads.Address) bool {
	switch {
	case c.state == StateClosed || c.state == StateIdle:
		return false
	case ours != c.id:
		return theirs == c.remoteID && c.state < StateEstablished && c.isPeer(from)
	case c.state == StateREQSent || c.state == StateREPWait, // the peer's first message: its ID is not known
		k == msgREJ && theirs == 0:
		return c.isPeer(from)
	}
	return theirs == c.remoteID
}

// react performs the action of the state table for a message. It returns a connection that is stale because of the
// message. ok is false if the message is not from this connection's peer. The caller holds c.mu.
func (c *conn) react(r *mads.Received, h *mad.Header, k message, ours, theirs uint32, msg mad.CMMessage) (stale *conn,
	ok bool) {
	count := &c.m.count
	if !c.isFromPeer(k, ours, theirs, &r.From) {
		return nil, false
	}
	if d, ok := msg.(*mad.DREQ); ok && d.RemoteQPN != uint32(c.qp.Num) && (c.accepted || c.active) {
		count.drop(DropMismatch)
		return nil, true
	}
	used := true
	switch reactions[c.state][k] {
	case ignore:
		used = false
	case repeat:
		if used = c.sent != nil; used {
			c.resend()
		}
	case repeatREJ:
		if used = c.sentAttr() == mad.AttrREJ; used {
			c.resend()
		}
	case takeREP:
		stale = c.receiveREP(msg.(*mad.REP))
	case establish:
		c.establish()
		c.receiveRTU(msg.(*mad.RTU))
	case noteRTU:
		used = c.receiveRTU(msg.(*mad.RTU))
	case waitLonger:
		used = c.receiveMRA(k, msg.(*mad.MRA))
	case rejected, rejectedLate:
		c.receiveREJ(msg.(*mad.REJ))
	case disconnect:
		c.receiveDREQ(h.TID, msg.(*mad.DREQ))
	case answer:
		c.dreqTID = h.TID
		c.answerDisconnect(nil)
	case answerAgain:
		c.repeatDREP(h.TID)
	case disconnected:
		c.receiveDREP(msg.(*mad.DREP))
	case establishLAP:
		c.establish()
		c.receiveLAP(h.TID, msg.(*mad.LAP))
	case takeLAP:
		used = c.receiveLAP(h.TID, msg.(*mad.LAP))
	case takeAPR:
		used = c.receiveAPR(h.TID, msg.(*mad.APR))
	}
	if !used {
		count.drop(DropLate)
	}
	return stale, true
}

// repeatDREP answers a copy of a DREQ in time-wait. The caller holds c.mu.
func (c *conn) repeatDREP(tid uint64) {
	if c.sentAttr() == mad.AttrDREP {
		c.resend()
		return
	}
	c.port.reply(&c.to, encode(tid, &mad.DREP{LocalCommID: c.id, RemoteCommID: c.remoteID}))
}

// receiveDREP takes the answer to our DREQ. The caller holds c.mu.
func (c *conn) receiveDREP(d *mad.DREP) {
	if s := c.step; s != nil {
		s.private = d.PrivateData[:]
	}
	c.finish(nil)
	c.emit(Event{Type: EventDisconnected, Private: d.PrivateData[:]})
	c.enterTimeWait(errDisconnected)
}

// receiveMRA takes an MRA. It returns false if the current state ignores it. The caller holds c.mu.
func (c *conn) receiveMRA(k message, a *mad.MRA) bool {
	switch k {
	case msgMRAofREQ:
		c.state, c.remoteID = StateREPWait, a.LocalCommID
	case msgMRAofREP:
		c.state = StateMRAREPRcvd
	default:
		return c.receiveMRAofLAP(a)
	}
	// The wait is at least one interval, even if the MRA requests less.
	c.setDue(max(c.m.boundedTime(a.ServiceTimeout)+2*c.packetLifeTime(), c.interval()))
	c.emit(Event{Type: EventDelayed, Private: a.PrivateData[:]})
	return true
}

// receiveREJ takes a REJ. The caller holds c.mu.
func (c *conn) receiveREJ(j *mad.REJ) {
	err := &RejectError{Reason: j.Reason, Message: j.Message, Info: bytes.Clone(j.AdditionalInfo()),
		Private: j.PrivateData[:]}
	switch c.state {
	case StateREQSent, StateREPWait:
		if c.peerConfig != nil && j.Reason == mad.RejInvalidServiceID {
			c.cause = err // the peer's consumer has not sent its REQ yet; ours is repeated (12.10.4)
			return
		}
		c.finish(err)
		c.close(err)
	case StateDREQSent: // the peer has no such connection, so the disconnect has succeeded
		c.finish(nil)
		c.emit(Event{Type: EventDisconnected, Err: err})
		c.enterTimeWait(err)
	case StateREPSent, StateMRAREPRcvd: // Accept waits
		c.finish(err)
		c.enterTimeWait(err)
	default:
		c.emit(Event{Type: EventRejected, Err: err, Private: err.Private})
		c.enterTimeWait(err)
	}
}
