package sma

import (
	"encoding/binary"
	"sync"
	"time"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/mad"
)

// A TrapSource is a Node that detects events of its own which need a trap. New registers the agent's Trap.
type TrapSource interface {
	Node
	// OnTrap registers the function that sends traps. The node calls it with no lock held.
	OnTrap(send func(port uint8, n *mad.Notice))
}

const (
	// maxTraps is the number of traps that an agent repeats at once. Further ones are lost. Each takes 100 bytes.
	maxTraps = 16
	// maxRepeats is the number of repetitions of one trap, after which the agent gives up.
	maxRepeats = 256
	// minTrapInterval limits the rate of traps where SubnetTimeout does not.
	minTrapInterval = 10 * time.Millisecond
)

// traps are the traps that were sent and not repressed yet.
type traps struct {
	a     *Agent
	to    Notifier
	clock clock.Clock
	send  func(port uint8, to Manager, m *ci.MAD)

	mu     sync.Mutex
	tid    uint64
	timer  clock.Timer
	set    bool // the timer is set
	closed bool
	list   []trap // in order of the first transmission
}

// trap is an outstanding trap.
type trap struct {
	port    uint8
	tid     uint64
	repeats int
	at      time.Duration // of the next transmission
	notice  mad.Notice
}

func (t *traps) init(a *Agent, c *Config) {
	t.a, t.clock, t.tid = a, c.Clock, c.FirstTID
	if to, ok := c.Node.(Notifier); ok && c.SendTrap != nil && c.Clock != nil {
		t.to, t.send = to, c.SendTrap
	}
}

func (t *traps) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed, t.list = true, nil
	if t.timer != nil {
		t.timer.Stop()
	}
}

// interval returns the time until a trap is repeated.
func interval(m *Manager) time.Duration {
	return max(mad.TimeExp(m.Timeout).Duration(), minTrapInterval)
}

// Trap sends a trap from a port to its subnet manager, and repeats it until the manager represses it. The agent fills
// in the producer, the issuer's LID and, at the places that the numbers of generic traps have for it, the LID in the
// details. A trap that equals an outstanding one is not sent again: the repetitions report it. Without a manager, the
// trap is lost.
func (a *Agent) Trap(port uint8, n *mad.Notice) {
	t := &a.traps
	if t.send == nil {
		a.counters.add(TrapsLost)
		return
	}
	to, ok := t.to.Manager(port)
	if !ok {
		a.counters.add(TrapsLost)
		return
	}
	x := trap{port: port, notice: *n}
	x.notice.IssuerLID = uint16(to.Own)
	if n.Generic {
		x.notice.Producer = uint32(a.node.Type())
		fillLID(&x.notice)
	}
	t.mu.Lock()
	for i := range t.list {
		if o := &t.list[i]; o.port == port && o.notice == x.notice {
			t.mu.Unlock()
			return
		}
	}
	if t.closed || len(t.list) >= maxTraps {
		t.mu.Unlock()
		a.counters.add(TrapsLost)
		return
	}
	x.tid = t.tid
	t.tid++
	x.at = t.clock.Now() + interval(&to)
	t.list = append(t.list, x)
	t.arm()
	t.mu.Unlock()
	a.counters.add(TrapsSent)
	t.transmit(&x, to)
}

// fillLID writes the issuer's LID into the details of a generic trap.
func fillLID(n *mad.Notice) {
	switch n.Trap {
	case mad.TrapLinkState:
		binary.BigEndian.PutUint16(n.Details[0:], n.IssuerLID)
	case mad.TrapLinkIntegrity, mad.TrapBufferOverrun, mad.TrapFlowControl, mad.TrapCapabilityMask,
		mad.TrapSystemGUIDChanged:
		binary.BigEndian.PutUint16(n.Details[2:], n.IssuerLID)
	case mad.TrapSwitchBadPKey:
		binary.BigEndian.PutUint16(n.Details[48:], n.IssuerLID)
	}
}

// transmit sends a trap once. No lock is held.
func (t *traps) transmit(x *trap, to Manager) {
	s := mad.SMP{Header: mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassSubnetLID,
		ClassVersion: mad.ClassVersionSubnet, Method: mad.Trap, TID: x.tid, Attribute: mad.AttrNotice}}
	x.notice.Put(s.Data[:])
	var m ci.MAD
	s.Put(m[:])
	t.send(x.port, to, &m)
}

// arm sets the timer to the next transmission. The caller holds t.mu.
func (t *traps) arm() {
	if t.set || len(t.list) == 0 || t.closed {
		return
	}
	next := t.list[0].at
	for i := range t.list {
		next = min(next, t.list[i].at)
	}
	d := max(next-t.clock.Now(), 0)
	t.set = true
	if t.timer == nil {
		t.timer = t.clock.AfterFunc(d, t.repeat)
	} else {
		t.timer.Reset(d)
	}
}

// repeat sends the traps that are due again. A trap whose port has lost its manager is given up.
func (t *traps) repeat() {
	t.mu.Lock()
	t.set = false
	if t.closed {
		t.mu.Unlock()
		return
	}
	now := t.clock.Now()
	var due []trap
	var addresses []Manager
	kept := t.list[:0]
	for _, x := range t.list {
		if x.at > now {
			kept = append(kept, x)
			continue
		}
		to, ok := t.to.Manager(x.port)
		if x.repeats++; !ok || x.repeats > maxRepeats {
			t.a.counters.add(TrapsLost)
			continue
		}
		x.at = now + interval(&to)
		kept = append(kept, x)
		due, addresses = append(due, x), append(addresses, to)
	}
	t.list = kept
	t.arm()
	t.mu.Unlock()
	for i := range due {
		t.a.counters.add(TrapsRepeated)
		t.transmit(&due[i], addresses[i])
	}
}

// Repress ends the repetition of the trap that a TrapRepress acknowledges. It reports whether the agent sent the trap;
// if not, the TrapRepress may be for a manager's own trap. Execute calls Repress, too.
func (a *Agent) Repress(m *ci.MAD) bool { return a.traps.repress(m) }

// repress ends the repetition of the trap that a TrapRepress acknowledges (13.4.9).
func (t *traps) repress(m *ci.MAD) bool {
	tid := binary.BigEndian.Uint64(m[8:])
	isNotice := binary.BigEndian.Uint16(m[16:]) == mad.AttrNotice
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.list {
		if isNotice && t.list[i].tid == tid {
			t.remove(i)
			t.a.counters.add(TrapsRepressed)
			return true
		}
	}
	return false
}

// remove removes entry i. The caller holds t.mu.
func (t *traps) remove(i int) { t.list = append(t.list[:i], t.list[i+1:]...) }

// notice executes Get and Set of Notice: Get returns the oldest outstanding trap, and a Set of the same notice removes
// it (13.4.9). Modifiers other than 0 are not valid.
func (t *traps) notice(q *Request) (status uint16) {
	if q.Modifier != 0 {
		t.a.counters.add(BadField)
		return mad.StatusBadField
	}
	var want mad.Notice
	want.Parse(q.Data)
	t.mu.Lock()
	defer t.mu.Unlock()
	n := mad.Notice{Generic: true, Type: mad.NoticeEmpty, Producer: uint32(t.a.node.Type())}
	if len(t.list) > 0 {
		n = t.list[0].notice
		if want.Count = 0; q.Set && want == n {
			t.remove(0)
		}
		n.Count = uint16(len(t.list))
	}
	clear(q.Data)
	n.Put(q.Data)
	return mad.StatusOK
}
