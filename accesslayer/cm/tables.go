package cm

import (
	"math/rand/v2"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
)

// idSource gives communication IDs, request IDs and transaction IDs. The first two are all that a peer's first answer is known by, so nobody can guess
// them, not even who has a connection and knows its ID. Transaction IDs count up from where nobody knows, so that messages from an earlier life belong to
// nothing.
type idSource struct {
	high uint64 // of transaction IDs
	tid  uint32
	rand *rand.ChaCha8
}

func (s *idSource) init(r *rand.Rand) {
	s.high, s.tid = uint64(r.Uint32())<<32, r.Uint32()
	var seed [32]byte
	for i := range seed {
		seed[i] = byte(r.Uint32())
	}
	s.rand = rand.NewChaCha8(seed)
}

// psn gives a starting PSN, not 0; m.mu is held.
func (s *idSource) psn() ci.PSN { return ci.PSN(s.rand.Uint64()%0xffffff) + 1 }

// newID gives an ID that nothing has, time-wait included; m.mu is held.
func (m *Manager) newID() uint32 {
	for {
		id := uint32(m.ids.rand.Uint64())
		if id == 0 || m.conns[id] != nil || m.asking[id] != nil {
			continue
		}
		return id
	}
}

// newTID gives a transaction ID; m.mu is held.
func (m *Manager) newTID() uint64 {
	m.ids.tid++
	return m.ids.high | uint64(m.ids.tid)
}

// peerPort is a port from which messages come.
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

// isPeer tells whether an address is that of the peer's port: by GID if both have one, else by LID, of which LMC gives a port several: as many as
// ours has; c.mu is held.
func (c *conn) isPeer(a *mads.Address) bool {
	if a.AV.Global && c.to.AV.Global {
		return a.AV.GRH.DGID == c.to.AV.GRH.DGID
	}
	return (a.AV.DLID^c.to.AV.DLID)>>c.port.attr().LMC == 0
}

// waitList is the connections in time-wait, the oldest first.
type waitList struct {
	first, last *conn
	n           int
}

func (l *waitList) add(c *conn) {
	c.prev, c.next, c.listed = l.last, nil, true
	if l.last != nil {
		l.last.next = c
	} else {
		l.first = c
	}
	l.last = c
	l.n++
}

func (l *waitList) remove(c *conn) {
	if !c.listed {
		return
	}
	if c.prev != nil {
		c.prev.next = c.next
	} else {
		l.first = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	} else {
		l.last = c.prev
	}
	c.prev, c.next, c.listed = nil, nil, false
	l.n--
}

// replace puts n in the place of c.
func (l *waitList) replace(c, n *conn) {
	if !c.listed {
		return
	}
	n.prev, n.next, n.listed = c.prev, c.next, true
	if n.prev != nil {
		n.prev.next = n
	} else {
		l.first = n
	}
	if n.next != nil {
		n.next.prev = n
	} else {
		l.last = n
	}
	c.prev, c.next, c.listed = nil, nil, false
}

// bell wakes all who wait for something that a lock guards: the lock is held for its methods.
type bell struct{ c chan struct{} }

// wait gives the channel that the next ring closes.
func (b *bell) wait() <-chan struct{} {
	if b.c == nil {
		b.c = make(chan struct{})
	}
	return b.c
}

func (b *bell) ring() {
	if b.c != nil {
		close(b.c)
		b.c = nil
	}
}

// insertPeer enters a connection in the tables under its peer's names. It finds the one that has the communication ID, or the QP,
// already; then nothing is entered. m.mu is held.
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

// forgetQP lets the peer's QP connect anew; m.mu is held.
func (m *Manager) forgetQP(c *conn) {
	if m.peerQPs[c.peerQP] == c {
		delete(m.peerQPs, c.peerQP)
	}
}

// remove takes a connection out of all tables; m.mu is held.
func (m *Manager) remove(c *conn) {
	if m.conns[c.id] == c {
		delete(m.conns, c.id)
	}
	if m.peers[c.peer] == c {
		delete(m.peers, c.peer)
	}
	m.forgetQP(c)
	m.settle(c)
	m.timeWait.remove(c)
	if c.listener != nil {
		c.listener.dequeue(c)
	}
	m.forgetAsking(c)
}

func (m *Manager) forgetAsking(c *conn) {
	for i, o := range m.askingPeer {
		if o == c {
			m.askingPeer = append(m.askingPeer[:i], m.askingPeer[i+1:]...)
			return
		}
	}
}
