package cm

import (
	"bytes"
	"hash/maphash"

	"ciddk/mad"
)

// exchange is what the messages of the set-up contain. It is the larger part of a connection.
type exchange struct {
	req Request
	rep mad.REP
}

// released is the exchange of the connections that release makes. It is read and never written.
var released exchange

// release replaces a connection in time-wait that its consumer has closed, in the tables of the manager, by one that has only what time-wait
// needs: the IDs, the peer's address, the timer and the answer that copies of the last message get. The consumer's Conn stays as it is for as
// long as the consumer refers to it. Up to Config.MaxTimeWait connections are in that state, and a peer that asks and does not answer
// decides how many. c.mu is held.
func (c *conn) release() {
	if !c.quiet || c.state != StateTimeWait || c.exchange == &released {
		return
	}
	m := c.m
	n := &conn{m: m, id: c.id, exchange: &released, state: StateTimeWait, active: c.active, quiet: true, answered: c.answered, accepted: c.accepted,
		remoteID: c.remoteID, port: c.port, to: c.to, tid: c.tid, qp: c.qp, due: c.due, why: c.why, rest: c.timeWaitLen(), reqSum: m.sum(&c.req.REQ)}
	n.timer.Fire = n.expire
	switch c.sentAttr() {
	case mad.AttrREJ, mad.AttrDREP:
		n.sent = trimmed(c.sent)
	}
	m.mu.Lock()
	if m.closed || m.conns[c.id] != c {
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
	c.state, c.due, c.heir = StateClosed, 0, n
	m.wheel.Cancel(&c.timer)
}

// isCopy reports whether req is the request that made a passive connection; c.mu is held.
func (c *conn) isCopy(req *mad.REQ) bool {
	if c.exchange == &released {
		return c.reqSum == c.m.sum(req)
	}
	return c.req.REQ == *req
}

// sum is a hash that no peer can predict.
func (m *Manager) sum(req *mad.REQ) uint64 { return maphash.Comparable(m.seed, *req) }

// trimmed returns a copy of a datagram without the zeros at its end, but with all of a REJ's fields.
func trimmed(b []byte) []byte {
	b = bytes.TrimRight(b, "\x00")
	return bytes.Clone(b[:max(len(b), mad.HeaderLen+rejWhich+1)])
}

// padded returns a datagram at its full length.
func padded(b []byte) []byte {
	if len(b) == mad.Size {
		return b
	}
	return append(b[:len(b):len(b)], make([]byte, mad.Size-len(b))...)
}
