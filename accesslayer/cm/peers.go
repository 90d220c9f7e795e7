package cm

import (
	"slices"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
)

// peerID is a communication ID of a peer. Each CA has its own ID space.
type peerID struct {
	ca uint64
	id uint32
}

// peerQP is a QP of a peer.
type peerQP struct {
	ca  uint64
	qpn uint32
}

// peerPort is the port that a message came from: a GID, or a LID if the message had no GRH.
type peerPort struct {
	gid ci.GID
	lid ci.LID
}

func portOf(a *mads.Address) peerPort {
	if a.AV.Global {
		return peerPort{gid: a.AV.GRH.DGID}
	}
	return peerPort{lid: a.AV.DLID}
}

// isPeer reports whether a is an address of the peer's port. The caller holds c.mu.
func (c *conn) isPeer(a *mads.Address) bool { return c.port.isSame(&c.to, a) }

// isSame reports whether a and b, as seen from p, are addresses of one port. Ports are compared by GID if both
// addresses have one, and otherwise by LID. A port with LMC has several LIDs; the LMC of all ports is taken to be that
// of p.
func (p *port) isSame(a, b *mads.Address) bool {
	if a.AV.Global && b.AV.Global {
		return a.AV.GRH.DGID == b.AV.GRH.DGID
	}
	return (a.AV.DLID^b.AV.DLID)>>p.attr().LMC == 0
}

// insertPeer adds a connection to the tables by the peer's ID and the peer's QP. If another connection has one of them,
// insertPeer adds nothing and returns that connection. The caller holds m.mu.
func (m *Manager) insertPeer(c *conn, id peerID, qp peerQP) (sameID, sameQP *conn) {
	if o := m.peers[id]; o != nil && o != c {
		return o, nil
	}
	if o := m.peerQPs[qp]; o != nil && o != c {
		return nil, o
	}
	c.peer, c.peerQP = id, qp
	m.peers[id], m.peerQPs[qp] = c, c
	return nil, nil
}

// forgetQP removes the connection's entry for the peer's QP, so that this QP can connect again. The caller holds m.mu.
func (m *Manager) forgetQP(c *conn) {
	if m.peerQPs[c.peerQP] == c {
		delete(m.peerQPs, c.peerQP)
	}
}

// remove removes a connection from all tables. The caller holds m.mu.
func (m *Manager) remove(c *conn) {
	if m.conns[c.id] == c {
		delete(m.conns, c.id)
	}
	if m.peers[c.peer] == c {
		delete(m.peers, c.peer)
	}
	m.forgetQP(c)
	m.removePending(c)
	m.timeWait.remove(c)
	if c.listener != nil {
		c.listener.dequeue(c)
	}
	m.removePeerRequest(c)
}

// removePeerRequest removes a connection from the peer-to-peer requests that wait for the peer's request. The caller
// holds m.mu.
func (m *Manager) removePeerRequest(c *conn) {
	if i := slices.Index(m.peerRequests, c); i >= 0 {
		m.peerRequests = slices.Delete(m.peerRequests, i, i+1)
	}
}
