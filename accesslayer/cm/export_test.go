package cm

import (
	"bytes"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
)

// PendingTimers counts the connections and lookups that have something to wait for.
func PendingTimers(m *Manager) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.conns) + len(m.asking) + len(m.asked)
}

// Tables counts what is in each table that must be empty in the end.
func Tables(m *Manager) map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return map[string]int{"conns": len(m.conns), "peers": len(m.peers), "peerQPs": len(m.peerQPs), "askingPeer": len(m.askingPeer),
		"pending": len(m.pending), "perPeer": len(m.perPeer), "timeWait": m.timeWait.n, "asking": len(m.asking), "asked": len(m.asked)}
}

// Find gives a connection, which Connect may not have returned yet.
func Find(m *Manager, id uint32) Conn {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.conns[id]
}

// LapState names the state of loading an alternate path.
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

// Reaction names what a state does with a message, and the message.
func Reaction(s State, m int) (msg, do string) {
	return message(m).String(), reactions[s][m].String()
}

// Allowed tells whether a state allows a call, and the call's name.
func Allowed(s State, k int) (name string, ok bool) {
	for _, a := range calls[k] {
		ok = ok || a == s
	}
	return callNames[k], ok
}

// LapReaction names what a state of loading does with LAP, LAP again, APR and MRA.
func LapReaction(s int) (name string, actions [4]string) {
	r := lapReactions[s]
	return lapStateNames[s], [4]string{lapActionNames[r.lap], lapActionNames[r.lapAgain], lapActionNames[r.apr], lapActionNames[r.mra]}
}

const LapStates = int(lapStates)

// Kind classifies a message as the manager does.
func Kind(m mad.CMMessage) string {
	k, _, _ := kind(m)
	return k.String()
}

// Inject is a datagram that comes from a port with a LID.
func (m *Manager) Inject(id mads.Port, b []byte, lid ci.LID) {
	m.mu.Lock()
	p := m.ports[id]
	m.mu.Unlock()
	p.receive(&mads.Received{Port: id, From: mads.Address{QPN: 1, AV: ci.AVAttr{DLID: lid}}, MAD: b})
}

// AcceptNow takes a request that waits at a listener, nil if there is none.
func AcceptNow(l Listener) Conn {
	n := l.(*listener)
	n.m.mu.Lock()
	defer n.m.mu.Unlock()
	if c, ok := n.conns.take(); ok {
		return c
	}
	return nil
}

// AcceptLookupNow is the same for SIDR.
func AcceptLookupNow(l Listener) LookupRequest {
	n := l.(*listener)
	n.m.mu.Lock()
	defer n.m.mu.Unlock()
	if r, ok := n.lookups.take(); ok {
		return r
	}
	return nil
}

// AckTimeout is ackTimeout.
func AckTimeout(life, delay mad.TimeExp) mad.TimeExp { return ackTimeout(life, delay) }

// Undeliver is a report of the network on a datagram of a port's.
func (m *Manager) Undeliver(id mads.Port, u *mads.Undelivered) {
	m.mu.Lock()
	p := m.ports[id]
	m.mu.Unlock()
	p.undelivered(u)
}

// Sent is the message that a connection would repeat.
func Sent(c Conn) []byte {
	n := c.(*conn)
	n.mu.Lock()
	defer n.mu.Unlock()
	return bytes.Clone(n.sent)
}

// InjectFrom is a datagram that comes, or seems to come, from an address.
func (m *Manager) InjectFrom(id mads.Port, b []byte, from ci.GID, to ci.GID) {
	m.mu.Lock()
	p := m.ports[id]
	m.mu.Unlock()
	r := &mads.Received{Port: id, From: mads.Address{QPN: 1}, GRH: true, SGID: from, DGID: to, MAD: b}
	r.From.AV = ci.AVAttr{Global: true, GRH: ci.GRH{DGID: from, HopLimit: 64}}
	p.receive(r)
}
