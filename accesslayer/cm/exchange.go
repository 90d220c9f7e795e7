package cm

import (
	"bytes"
	"hash/maphash"
	"slices"

	"ciddk/mad"
)

// exchange holds the content of the messages that set up a connection. It is the larger part of a connection.
type exchange struct {
	req Request
	rep mad.REP
}

// releasedExchange is the exchange of connections that release creates. It is read only.
var releasedExchange exchange

// release replaces a connection in the manager's tables by a smaller one with only what time-wait needs: the IDs, the
// peer's address, the timer, and the answer for copies of the last message. It does so for connections in time-wait
// that the consumer has closed. The consumer's Conn keeps its content for as long as the consumer refers to it.
//
// Up to Config.MaxTimeWait connections are in that state. A peer that sends requests and does not answer controls how
// many, hence the smaller size. The caller holds c.mu.
func (c *conn) release() {
	if !c.consumerClosed || c.state != StateTimeWait || c.exchange == &releasedExchange {
		return
	}
	m := c.m
	n := &conn{
		m: m, id: c.id, exchange: &releasedExchange, state: StateTimeWait, active: c.active, consumerClosed: true,
		peerQPKnown: c.peerQPKnown, accepted: c.accepted, remoteID: c.remoteID, port: c.port, to: c.to, tid: c.tid,
		qp: c.qp, due: c.due, cause: c.cause, reqHash: m.hashREQ(&c.req.REQ),
	}
	n.timer.Fire = n.expire
	switch c.sentAttr() {
	case mad.AttrREJ, mad.AttrDREP:
		n.sent = trimZeros(c.sent)
	}
	m.mu.Lock()
	if m.closed || m.conns[c.id] != c || !c.inList { // it leaves time-wait early: its timer ends it
		m.mu.Unlock()
		return
	}
	n.peer, n.peerQP = c.peer, c.peerQP
	m.conns[n.id] = n
	if m.peers[n.peer] == c {
		m.peers[n.peer] = n
	}
	m.timeWait.replace(c, n)
	m.wheel.Set(&n.timer, n.due)
	m.mu.Unlock()
	c.state, c.due, c.successor = StateClosed, 0, n
	m.wheel.Cancel(&c.timer)
}

// isCopy reports whether req is a copy of the REQ that created this passive connection. The caller holds c.mu.
func (c *conn) isCopy(req *mad.REQ) bool {
	if c.exchange == &releasedExchange {
		return c.reqHash == c.m.hashREQ(req)
	}
	return c.req.REQ == *req
}

// hashREQ returns a hash that no peer can predict.
func (m *Manager) hashREQ(req *mad.REQ) uint64 { return maphash.Comparable(m.seed, *req) }

// trimZeros returns a copy of a datagram without the zeros at its end, but with all fields of a REJ.
func trimZeros(b []byte) []byte {
	b = bytes.TrimRight(b, "\x00")
	return bytes.Clone(b[:max(len(b), mad.HeaderLen+rejWhich+1)])
}

// padToSize returns a datagram extended to its full length.
func padToSize(b []byte) []byte {
	if len(b) == mad.Size {
		return b
	}
	return append(slices.Clip(b), make([]byte, mad.Size-len(b))...)
}
