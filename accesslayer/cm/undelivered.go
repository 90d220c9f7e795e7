package cm

import (
	"bytes"
	"encoding/binary"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
)

// receiveUndelivered takes a report of the network that a message of this port did not arrive.
//
// Anyone who can quote the message can forge such a report. The report therefore ends only a request that has had no
// answer, and only if it quotes the request's transaction ID and communication ID, which are unpredictable. It never
// affects a connection.
func (p *port) receiveUndelivered(u *mads.Undelivered) {
	const idOffset = mad.HeaderLen // of the sender's ID in REQ and SIDR_REQ
	if len(u.MAD) < idOffset+4 {
		return
	}
	err := &UnreachableError{To: u.To, Cause: u.Err}
	m := p.m
	id := binary.BigEndian.Uint32(u.MAD[idOffset:])
	m.mu.Lock()
	c, l := m.conns[id], m.lookups[id]
	if l != nil && l.port == p && isQuote(u, l.sent, &l.to) {
		m.count.undelivered.Add(1)
		l.end(nil, err)
	}
	m.mu.Unlock()
	if c != nil {
		c.receiveUndelivered(p, u, err)
	}
}

// receiveUndelivered ends a request that has had no answer.
func (c *conn) receiveUndelivered(p *port, u *mads.Undelivered, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != StateREQSent || c.port != p || !isQuote(u, c.sent, &c.to) {
		return
	}
	if c.peerConfig != nil { // the peer of a peer-to-peer request may start later
		c.cause = err
		return
	}
	c.m.count.undelivered.Add(1)
	c.finish(err)
	c.close(err)
}

// isQuote reports whether a report quotes a message that was sent to an address.
func isQuote(u *mads.Undelivered, sent []byte, to *mads.Address) bool {
	return to.AV.Global && to.AV.GRH.DGID == ci.GID(u.To) && bytes.HasPrefix(sent, u.MAD)
}
