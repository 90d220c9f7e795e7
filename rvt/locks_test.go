package rvt

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
)

// A lockPort inspects the locks of a QP whenever the engine sends.
type lockPort struct {
	*linkPort
	look func()
}

func (p *lockPort) Send(pkts []Packet) {
	p.look()
	p.linkPort.Send(pkts)
}

// isFree reports whether m is not held.
func isFree(m *sync.Mutex) bool {
	if !m.TryLock() {
		return false
	}
	m.Unlock()
	return true
}

// TestLocksDuringSend checks the rule of the package comment: Port.Send is called with the token and no other lock of
// the QP, its CQ or its port held. The requests go through a loop-back connection, so that Send delivers to the sending
// QP.
func TestLocksDuringSend(t *testing.T) {
	l := &wireLink{mtu: ci.MTU1024}
	p := &lockPort{linkPort: l.port(), look: func() {}}
	s := newSideOnPorts(t, []*linkPort{p.linkPort}, []Port{p}, 1, nil, plainRings{}, ci.RC, nil)
	s.connect(s, nil)
	q := s.qp.(*QP)
	cq := q.sendCQ
	sends := 0
	p.look = func() {
		sends++
		assert.False(t, isFree(&q.mu), "the token")
		for name, m := range map[string]*sync.Mutex{"sqMu": &q.sqMu, "rqMu": &q.rqMu,
			"inbox":    &q.inbox.mu,
			"CQ.getMu": &cq.getMu, "CQ.putMu": &cq.putMu,
			"run queue": &q.port.turns.mu, "ackQueue": &q.port.acks.mu, "refresh": &q.port.refreshMu,
			"QPs":  &s.hca.qps.byNum.mu,
			"keys": &s.hca.keys.slots.mu, "MR": &s.mr.(*MR).mu} {
			assert.True(t, isFree(m), name)
		}
		assert.True(t, s.hca.groups.mu.TryLock(), "groups")
		s.hca.groups.mu.Unlock()
	}
	s.recv(ci.RecvWR{ID: 1, SGL: s.sge(0, 64)})
	s.send(ci.SendWR{ID: 2, Flags: ci.SendSignaled, Inline: []byte("x")})
	g := s.mr.Region()
	s.send(ci.SendWR{ID: 3, Op: ci.OpRead, Flags: ci.SendSignaled, SGL: s.sge(64, 64),
		Remote: ci.Remote{Addr: g.Addr, RKey: g.RKey}})
	require.Len(t, s.poll(), 3)
	require.GreaterOrEqual(t, sends, 3)
	p.look = func() {}
}
