package sma

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/mad"
)

// hasKey checks the M_Key of a TrapRepress, which needs it at every protection level.
func (a *Agent) hasKey(port uint8, slid ci.LID, m *ci.MAD) bool {
	if a.keyed == nil {
		return true
	}
	q := Request{Port: port, SLID: slid, Set: true, Attribute: binary.BigEndian.Uint16(m[16:]),
		Modifier: binary.BigEndian.Uint32(m[20:]), MAD: m}
	return a.mayAccess(&q)
}

// mayAccess checks the M_Key of a request (IBTA volume 1, 14.2.4.1). It sets q.Authentic.
func (a *Agent) mayAccess(q *Request) bool {
	p := a.keyed.Protection(q.Port)
	key := binary.BigEndian.Uint64(q.MAD[24:])
	switch {
	case p.Key == 0:
		return true
	case key == p.Key:
		a.leases.stop(a.keyPort(q.Port))
		return true
	}
	q.Authentic = false
	if !q.Set && p.Level < 2 {
		return true
	}
	a.counters.add(BadMKey)
	a.keyed.CountMKeyViolation(q.Port)
	if p.Level != 0 && p.Lease != 0 {
		a.leases.start(a.keyPort(q.Port), time.Duration(p.Lease)*time.Second)
	}
	a.trapBadMKey(q, key)
	return false
}

// keyPort returns the port whose M_Key protects a port.
func (a *Agent) keyPort(port uint8) uint8 {
	if a.isSwitch {
		return 0
	}
	return port
}

// leases are the M_Key leases that run out (14.2.4): one begins with the first SMP that fails the check, and ends with
// the next one that has the key.
type leases struct {
	a       *Agent
	clock   clock.Clock
	running atomic.Int32

	mu     sync.Mutex
	timers map[uint8]*lease // by port; nil until the first
	closed bool
}

type lease struct {
	timer clock.Timer
	on    bool
	until time.Duration
}

func (l *leases) init(a *Agent, c clock.Clock) { l.a, l.clock = a, c }

// start begins the lease of a port, unless it has begun.
func (l *leases) start(port uint8, d time.Duration) {
	if l.clock == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.timers[port]
	if l.closed || t != nil && t.on {
		return
	}
	if t == nil {
		if l.timers == nil {
			l.timers = map[uint8]*lease{}
		}
		t = &lease{}
		l.timers[port] = t
	}
	t.on, t.until = true, l.clock.Elapsed()+d
	l.running.Add(1)
	if t.timer == nil {
		t.timer = l.clock.AfterFunc(d, func() { l.expire(port, t) })
	} else {
		t.timer.Reset(d)
	}
}

// stop ends the lease of a port: its owner is alive.
func (l *leases) stop(port uint8) {
	if l.running.Load() == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.timers[port]; t != nil && t.on {
		t.on = false
		t.timer.Stop()
		l.running.Add(-1)
	}
}

func (l *leases) expire(port uint8, t *lease) {
	l.mu.Lock()
	if !t.on || l.closed || l.clock.Elapsed() < t.until {
		l.mu.Unlock()
		return
	}
	t.on = false
	l.running.Add(-1)
	l.mu.Unlock()
	l.a.counters.add(LeasesExpired)
	l.a.keyed.ExpireMKey(port)
}

func (l *leases) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, t := range l.timers {
		t.timer.Stop()
	}
}

// trapBadMKey sends trap 256 for a request that failed the check.
func (a *Agent) trapBadMKey(q *Request, key uint64) {
	m := q.MAD
	t := mad.TrapMKey{LID: uint16(q.SLID), Method: mad.Method(m[3]), Attribute: q.Attribute, Modifier: q.Modifier,
		MKey: key}
	if mad.Class(m[1]) == mad.ClassSubnetDirected {
		count := m[offCount]
		t.Directed, t.DrSLID = true, uint16(lidAt(m, offDrSLID))
		t.HopCount = count
		t.Truncated = int(count) > len(t.ReturnPath)
		copy(t.ReturnPath[:], m[offReturn+1:offReturn+1+int(count)])
	}
	n := mad.Notice{Generic: true, Type: mad.NoticeSecurity, Trap: mad.TrapBadMKey}
	t.Put(n.Details[:])
	a.Trap(q.Port, &n)
}
