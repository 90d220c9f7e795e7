package sma

import (
	"encoding/binary"
	"slices"
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
	// maxTraps is the number of traps that an agent repeats at once, and maxTrapsOfKind that of those with the same
	// number: SMPs with many wrong M_Keys must not keep the agent from reporting a link. Further ones are lost. Each
	// takes 100 bytes.
	maxTraps       = 16
	maxTrapsOfKind = 4
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
	again   bool          // the event has occurred again since the first transmission
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
// details. A trap that equals an outstanding one is not sent at once: the repetitions report it, or a trap of its own
// after the TrapRepress, which may have been sent before the event. Without a manager, the trap is lost.
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
	numOfKind := 0
	for i := range t.list {
		o := &t.list[i]
		if o.port == port && o.notice == x.notice {
			o.again = true
			t.mu.Unlock()
			return
		}
		if o.notice.Generic == x.notice.Generic && o.notice.Trap == x.notice.Trap {
			numOfKind++
		}
	}
	if t.closed || len(t.list) >= maxTraps || numOfKind >= maxTrapsOfKind {
		t.mu.Unlock()
		a.counters.add(TrapsLost)
		return
	}
	x.tid = t.tid
	t.tid++
	x.at = t.clock.Elapsed() + interval(&to)
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
	d := max(next-t.clock.Elapsed(), 0)
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
	now := t.clock.Elapsed()
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

// Repress ends the repetition of the trap that a TrapRepress acknowledges, if it has the M_Key of the port on which it
// arrived. Repress reports whether the agent sent the trap; if not, the TrapRepress may be for a manager's own trap.
// Execute does the same for a node without managers.
func (a *Agent) Repress(port uint8, slid ci.LID, m *ci.MAD) bool {
	if !a.traps.has(m) {
		return false
	}
	if a.hasKey(port, slid, m) {
		a.traps.repress(m)
	}
	return true
}

// repress ends the repetition of the trap that a TrapRepress acknowledges (13.4.9).
func (t *traps) repress(m *ci.MAD) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := t.find(m)
	if i < 0 {
		return false
	}
	t.a.counters.add(TrapsRepressed)
	if x := &t.list[i]; x.again { // sent when its next repetition is due, which limits the rate
		x.tid, x.again, x.repeats = t.tid, false, 0
		t.tid++
	} else {
		t.remove(i)
	}
	return true
}

// has reports whether the trap of a TrapRepress is outstanding.
func (t *traps) has(m *ci.MAD) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.find(m) >= 0
}

// find returns the index of the trap of a TrapRepress, or -1. The caller holds t.mu.
func (t *traps) find(m *ci.MAD) int {
	tid := binary.BigEndian.Uint64(m[8:])
	if binary.BigEndian.Uint16(m[16:]) != mad.AttrNotice {
		return -1
	}
	return slices.IndexFunc(t.list, func(x trap) bool { return x.tid == tid })
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
