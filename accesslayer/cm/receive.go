package cm

import (
	"encoding/binary"
	"errors"

	"ciddk/accesslayer/mads"
	"ciddk/mad"
)

// receive takes a datagram: it is the OnReceive of the port's agents, and does not block.
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
		p.request(r, &h, msg)
		return
	case *mad.SIDRREQ:
		p.lookup(r, &h, msg)
		return
	case *mad.SIDRREP:
		p.lookedUp(r, msg)
		return
	}
	k, ours, theirs := kind(msg)
	if k == messages {
		m.count.drop(DropMalformed)
		return
	}
	c := m.find(k, msg, ours)
	if c == nil {
		p.stranger(r, &h, msg)
		return
	}
	if !c.receive(p, r, &h, k, ours, theirs, msg) {
		p.stranger(r, &h, msg)
	}
}

// find gives the connection to which a message belongs. A peer that has not learned our ID, because it waited in vain for our first
// message, is found by what it calls itself (12.6.7.2, reason timeout).
func (m *Manager) find(k message, msg mad.CMMessage, ours uint32) *conn {
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

// rejectVersion answers what only another version of the manager understands; in all versions, the communication IDs come first.
func (p *port) rejectVersion(r *mads.Received, h *mad.Header) {
	j := mad.REJ{Reason: mad.RejClassVersion, InfoLength: 1, RemoteCommID: binary.BigEndian.Uint32(r.MAD[mad.HeaderLen:])}
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

// stranger answers messages for no connection, where somebody waits for an answer.
func (p *port) stranger(r *mads.Received, h *mad.Header, msg mad.CMMessage) {
	p.m.count.drop(DropUnknown)
	switch msg := msg.(type) {
	case *mad.DREQ: // over is over, so the peer may stop asking (12.9.7)
		p.reply(&r.From, encode(h.TID, &mad.DREP{LocalCommID: msg.RemoteCommID, RemoteCommID: msg.LocalCommID}))
	case *mad.REP: // its sender looks for the connection by both IDs, as Linux does
		p.reply(&r.From, encode(h.TID, &mad.REJ{LocalCommID: msg.RemoteCommID, RemoteCommID: msg.LocalCommID, Message: mad.WhichREP, Reason: mad.RejInvalidCommID}))
	case *mad.LAP:
		p.reply(&r.From, encode(h.TID, &mad.APR{LocalCommID: msg.RemoteCommID, RemoteCommID: msg.LocalCommID, Status: mad.APRInvalidCommID}))
	}
}

// receive reacts to a message. False: it is not from this connection's peer.
func (c *conn) receive(p *port, r *mads.Received, h *mad.Header, k message, ours, theirs uint32, msg mad.CMMessage) bool {
	c.mu.Lock()
	stale, ok := c.react(p, r, h, k, ours, theirs, msg)
	c.mu.Unlock()
	if stale != nil {
		stale.endStale(&r.From)
	}
	return ok
}

// fromPeer tells whether the sender is the peer, as far as it can be known; c.mu is held. A REJ that names only one of both IDs counts only from
// where the peer is; one that does not name ours is from a peer that has not heard of this end yet, so nothing is established.
func (c *conn) fromPeer(k message, ours, theirs uint32, from *mads.Address) bool {
	switch {
	case c.state == StateClosed || c.state == StateIdle:
		return false
	case ours != c.id:
		return theirs == c.remoteID && c.state < StateEstablished && c.isPeer(from)
	case c.state == StateREQSent || c.state == StateREPWait: // the peer's first message
		return true
	case k == msgREJ && theirs == 0:
		return c.isPeer(from)
	}
	return theirs == c.remoteID
}

// react looks up what to do, and does it; c.mu is held.
func (c *conn) react(p *port, r *mads.Received, h *mad.Header, k message, ours, theirs uint32, msg mad.CMMessage) (stale *conn, ok bool) {
	count := &c.m.count
	if !c.fromPeer(k, ours, theirs, &r.From) {
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
			c.again()
		}
	case repeatREJ:
		if used = c.sentAttr() == mad.AttrREJ; used {
			c.again()
		}
	case takeREP:
		stale = c.takeREP(msg.(*mad.REP))
	case establish:
		c.establish()
		c.noteRTU(msg.(*mad.RTU))
	case noteRTU:
		used = c.noteRTU(msg.(*mad.RTU))
	case waitLonger:
		used = c.waitLonger(k, msg.(*mad.MRA))
	case rejected, rejectedLate:
		c.rejected(msg.(*mad.REJ))
	case disconnect:
		c.disconnect(h.TID, msg.(*mad.DREQ))
	case answer:
		c.dreqTID = h.TID
		c.answerDisconnect(nil)
	case answerAgain:
		if c.sentAttr() != mad.AttrDREP {
			c.port.reply(&c.to, encode(h.TID, &mad.DREP{LocalCommID: c.id, RemoteCommID: c.remoteID}))
		} else {
			c.again()
		}
	case disconnected:
		d := msg.(*mad.DREP)
		if w := c.waiting; w != nil {
			w.private = d.PrivateData[:]
		}
		c.finish(nil)
		c.emit(Event{Type: EventDisconnected, Private: d.PrivateData[:]})
		c.enterTimeWait(errDisconnected)
	case establishLAP:
		c.establish()
		c.takeLAP(h.TID, msg.(*mad.LAP))
	case takeLAP:
		used = c.takeLAP(h.TID, msg.(*mad.LAP))
	case takeAPR:
		used = c.takeAPR(h.TID, msg.(*mad.APR))
	}
	if !used {
		count.drop(DropLate)
	}
	return stale, true
}

// waitLonger is an MRA; c.mu is held.
func (c *conn) waitLonger(k message, a *mad.MRA) bool {
	switch k {
	case msgMRAofREQ:
		c.state, c.remoteID = StateREPWait, a.LocalCommID
	case msgMRAofREP:
		c.state = StateMRAREPRcvd
	default:
		return c.lapDelayed(a)
	}
	c.setDue(max(c.m.span(a.ServiceTimeout)+2*c.life(), c.interval())) // longer, whatever it says
	c.emit(Event{Type: EventDelayed, Private: a.PrivateData[:]})
	return true
}

// rejected is a REJ; c.mu is held.
func (c *conn) rejected(j *mad.REJ) {
	err := &RejectError{Reason: j.Reason, Message: j.Message, Info: append([]byte(nil), j.AdditionalInfo()...), Private: j.PrivateData[:]}
	switch c.state {
	case StateREQSent, StateREPWait:
		if c.asking != nil && j.Reason == mad.RejInvalidServiceID {
			c.why = err // the peer's consumer has not asked yet: ours goes on (12.10.4)
			return
		}
		c.finish(err)
		c.close(err)
	case StateDREQSent: // it knows of no connection, which is what we want
		c.finish(nil)
		c.emit(Event{Type: EventDisconnected, Err: err})
		c.enterTimeWait(err)
	case StateREPSent, StateMRAREPRcvd:
		if !c.finish(err) {
			c.emit(Event{Type: EventRejected, Err: err, Private: err.Private})
		}
		c.enterTimeWait(err)
	default:
		c.emit(Event{Type: EventRejected, Err: err, Private: err.Private})
		c.enterTimeWait(err)
	}
}
