package cm

import (
	"bytes"
	"encoding/binary"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
)

// undelivered takes a report of the network that a message of the port's did not arrive. Anybody may forge such a report, as far as he can
// quote the message. So it ends an attempt that has heard nothing of the peer yet, whose message it quotes with transaction ID and
// communication ID, which are unpredictable; and it never touches a connection.
func (p *port) undelivered(u *mads.Undelivered) {
	const id = mad.HeaderLen // where REQ and SIDR_REQ have the ID of their sender
	if len(u.MAD) < id+4 {
		return
	}
	err := &UnreachableError{To: u.To, Cause: u.Err}
	m := p.m
	num := binary.BigEndian.Uint32(u.MAD[id:])
	m.mu.Lock()
	c, q := m.conns[num], m.asking[num]
	if q != nil && q.port == p && isQuote(u, q.sent, &q.to) {
		m.count.undelivered.Add(1)
		q.end(nil, err)
	}
	m.mu.Unlock()
	if c != nil {
		c.undelivered(p, u, err)
	}
}

// undelivered ends a request that was not answered yet.
func (c *conn) undelivered(p *port, u *mads.Undelivered, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != StateREQSent || c.port != p || !isQuote(u, c.sent, &c.to) {
		return
	}
	if c.asking != nil { // of two that ask each other, one may be there first
		c.why = err
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
