package cm

import (
	"bytes"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
)

// PendingTimers returns the number of connections and lookups that have a timer.
func PendingTimers(m *Manager) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.conns) + len(m.lookups) + len(m.lookupRequests)
}

// Tables returns the size of each table that must be empty in the end.
func Tables(m *Manager) map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return map[string]int{"conns": len(m.conns), "peers": len(m.peers), "peerQPs": len(m.peerQPs),
		"askingPeer": len(m.peerRequests),
		"pending":    len(m.pending), "perPeer": len(m.perPeer), "timeWait": m.timeWait.count, "asking": len(m.lookups),
		"asked": len(m.lookupRequests)}
}

// Find returns a connection by its ID, even before Connect returns it.
func Find(m *Manager, id uint32) Conn {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.conns[id]
}

// LapState returns the name of the state of a proposal for an alternate path.
func LapState(c Conn) string {
	n := c.(*conn)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.loading == nil {
		return lapStateNames[lapIdle]
	}
	return lapStateNames[n.loading.state]
}

const (
	States   = states
	Messages = messages
	Calls    = callsN
)

// Reaction returns the names of a message and of the reaction of a state to it.
func Reaction(s State, m int) (msg, do string) {
	return message(m).String(), reactions[s][m].String()
}

// Allowed returns the name of a call and reports whether a state allows it.
func Allowed(s State, k int) (name string, ok bool) {
	for _, a := range calls[k] {
		ok = ok || a == s
	}
	return callNames[k], ok
}

// LapReaction returns the name of a state of a proposal, and of its reactions to LAP, LAP again, APR and MRA.
func LapReaction(s int) (name string, actions [4]string) {
	r := lapReactions[s]
	return lapStateNames[s], [4]string{lapActionNames[r.lap], lapActionNames[r.lapAgain], lapActionNames[r.apr],
		lapActionNames[r.mra]}
}

const LapStates = int(lapStates)

// Kind returns the name of the kind of a message.
func Kind(m mad.CMMessage) string {
	k, _, _ := kind(m)
	return k.String()
}

// Inject delivers a datagram from the port with the given LID.
func (m *Manager) Inject(id mads.Port, b []byte, lid ci.LID) {
	m.mu.Lock()
	p := m.ports[id]
	m.mu.Unlock()
	p.receive(&mads.Received{Port: id, From: mads.Address{QPN: 1, AV: ci.AVAttr{DLID: lid}}, MAD: b})
}

// AcceptNow returns the oldest request in the backlog of a listener, or nil if there is none.
func AcceptNow(l Listener) Conn {
	n := l.(*listener)
	n.m.mu.Lock()
	defer n.m.mu.Unlock()
	if c, ok := n.conns.take(); ok {
		return c
	}
	return nil
}

// AcceptLookupNow is AcceptNow for SIDR requests.
func AcceptLookupNow(l Listener) LookupRequest {
	n := l.(*listener)
	n.m.mu.Lock()
	defer n.m.mu.Unlock()
	if r, ok := n.lookups.take(); ok {
		return r
	}
	return nil
}

// AckTimeout calls ackTimeout.
func AckTimeout(life, delay mad.TimeExp) mad.TimeExp { return ackTimeout(life, delay) }

// Undeliver delivers a report of the network about a datagram of a port.
func (m *Manager) Undeliver(id mads.Port, u *mads.Undelivered) {
	m.mu.Lock()
	p := m.ports[id]
	m.mu.Unlock()
	p.receiveUndelivered(u)
}

// Sent returns the message that a connection would send again.
func Sent(c Conn) []byte {
	n := c.(*conn)
	n.mu.Lock()
	defer n.mu.Unlock()
	return bytes.Clone(n.sent)
}

// InjectFrom delivers a datagram with the given source address, which may be forged.
func (m *Manager) InjectFrom(id mads.Port, b []byte, from ci.GID, to ci.GID) {
	m.mu.Lock()
	p := m.ports[id]
	m.mu.Unlock()
	r := &mads.Received{Port: id, From: mads.Address{QPN: 1}, GRH: true, SGID: from, DGID: to, MAD: b}
	r.From.AV = ci.AVAttr{Global: true, GRH: ci.GRH{DGID: from, HopLimit: 64}}
	p.receive(r)
}
