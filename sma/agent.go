package sma

import (
	"encoding/binary"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/mad"
)

// A Config describes an Agent.
type Config struct {
	// Node is what the agent manages.
	Node Node
	// Clock is the source of time for leases and traps. It may be nil for an agent without both.
	Clock clock.Clock
	// SendTrap sends a trap from a port, by LID. The agent keeps no lock during the call, which must not block. The
	// datagram is valid during the call. With nil, the agent sends no traps.
	SendTrap func(port uint8, to Manager, m *ci.MAD)
	// FirstTID is the transaction ID of the first trap. The following ones count up. An unpredictable value keeps
	// others than the receiver of a trap from repressing it.
	FirstTID uint64
}

// An Agent is the subnet management interface (SMI) and the subnet management agent (SMA) of a node. It is driven by
// its callers: it has no goroutine, and a timer only while a trap or a lease is outstanding. Receive, Send and Refuse
// allocate nothing. All methods may be called concurrently.
type Agent struct {
	node     Node
	keyed    KeyedNode // or nil
	isSwitch bool
	numPorts uint8
	counters counters
	leases   leases
	traps    traps
}

// New returns an agent. Close releases its timers.
func New(c Config) *Agent {
	a := &Agent{node: c.Node, isSwitch: c.Node.Type() == mad.NodeSwitch, numPorts: c.Node.NumPorts()}
	a.keyed, _ = c.Node.(KeyedNode)
	a.leases.init(a, c.Clock)
	a.traps.init(a, &c)
	if s, ok := c.Node.(TrapSource); ok {
		s.OnTrap(a.Trap)
	}
	return a
}

// Close stops traps and leases. It is idempotent.
func (a *Agent) Close() {
	a.leases.close()
	a.traps.close()
}

// Receive processes an SMP that arrived on a port with the source LID slid, which is permissive for directed routes. On
// a switch, SMPs by LID are those for its port 0. It overwrites m with what the verdict is about. It is Arrive, Execute
// and Return in one call.
func (a *Agent) Receive(port uint8, slid ci.LID, m *ci.MAD) Verdict {
	v := a.Arrive(port, m)
	if v.Action != Deliver {
		return v
	}
	return a.here(port, slid, m)
}

// Send processes an SMP that a manager of the node sends from a port, 0 for a switch. SMPs by LID need Send only if
// they are for the node itself. A Reply is for the manager itself, and so is a Deliver: the route has no hops.
func (a *Agent) Send(port uint8, m *ci.MAD) Verdict {
	v := a.Depart(port, m)
	if v.Action != Deliver {
		return v
	}
	return a.here(port, 0, m)
}

// here executes an SMP for this node and starts its response on the way back.
func (a *Agent) here(port uint8, slid ci.LID, m *ci.MAD) Verdict {
	action := a.Execute(port, slid, m)
	if action == Reply {
		return a.Return(port, m)
	}
	return Verdict{Action: action}
}

// Refuse processes an SMP of a Deliver that no manager takes: it answers a request as unsupported and drops others.
func (a *Agent) Refuse(port uint8, m *ci.MAD) Verdict {
	if a.refuse(m) == Reply {
		return a.Return(port, m)
	}
	return Verdict{}
}

func (a *Agent) refuse(m *ci.MAD) Action {
	switch mad.Method(m[3]) {
	case mad.Get, mad.Set:
		a.counters.add(BadAttribute)
		return a.answer(m, mad.StatusBadMethodAttribute)
	case mad.TrapRepress:
		a.counters.add(BadRepress)
	default:
		a.counters.add(Unclaimed)
	}
	return Discard
}

// Arrive is the SMI for an SMP that arrived on a port. Deliver means that the SMP is for the agent or the managers of
// this node.
func (a *Agent) Arrive(port uint8, m *ci.MAD) Verdict {
	a.counters.add(Received)
	if mad.Class(m[1]) != mad.ClassSubnetDirected {
		return Verdict{Action: Deliver}
	}
	s, out := directedIn(m, port, a.numPorts, a.isSwitch)
	off := offDrDLID
	if isReturning(m) {
		off = offDrSLID
	}
	return a.leave(s, out, m, off)
}

// Depart is the SMI for an SMP that a manager of the node sends from a port, 0 for a switch.
func (a *Agent) Depart(port uint8, m *ci.MAD) Verdict {
	a.counters.add(Received)
	if mad.Class(m[1]) != mad.ClassSubnetDirected {
		return Verdict{Action: Deliver}
	}
	var s step
	var out uint8
	if isReturning(m) {
		s, out = directedReply(m, port, a.numPorts, a.isSwitch)
	} else {
		s, out = directedOut(m, port, a.numPorts, a.isSwitch)
	}
	return a.leave(s, out, m, offDrDLID)
}

// leave returns the verdict for a step. The LID at off is where the LID-routed part ends.
func (a *Agent) leave(s step, out uint8, m *ci.MAD, off int) Verdict {
	switch s {
	case stepOut:
		a.counters.add(Forwarded)
		return Verdict{Action: Forward, Port: out}
	case stepByLID:
		a.counters.add(Forwarded)
		return Verdict{Action: Forward, ByLID: true, LID: lidAt(m, off)}
	case stepHere:
		return Verdict{Action: Deliver}
	}
	a.counters.add(BadHops)
	return Verdict{}
}

// Return is the SMI for the response of Execute: it starts it on its way back from the port on which the request
// arrived. The result is a Reply, or a Discard if the return path is not valid.
func (a *Agent) Return(port uint8, m *ci.MAD) Verdict {
	v := Verdict{Action: Reply, ByLID: true}
	if mad.Class(m[1]) == mad.ClassSubnetDirected {
		switch s, out := directedReply(m, port, a.numPorts, a.isSwitch); s {
		case stepNowhere:
			a.counters.add(BadHops)
			return Verdict{}
		case stepOut:
			v.Port, v.ByLID = out, false
		}
	}
	return v
}

// Execute is the SMA: it executes an SMP for this node that arrived on a port. It does not look at the route. Reply
// means that m is the response now.
func (a *Agent) Execute(port uint8, slid ci.LID, m *ci.MAD) Action {
	return a.execute(port, slid, m, false)
}

// execute is Execute, without a check of the M_Key if the sender is trusted.
func (a *Agent) execute(port uint8, slid ci.LID, m *ci.MAD, isTrusted bool) Action {
	method := mad.Method(m[3])
	switch {
	case method&mad.ResponseMask != 0 && isSubnetClass(m): // of any version: only the manager knows what it has asked
		a.counters.add(Delivered)
		return Deliver
	case !isSubnet(m):
		if !isRequest(method) {
			a.counters.add(Malformed)
			return Discard
		}
		a.counters.add(BadVersion)
		return a.answer(m, mad.StatusBadVersion)
	case method == mad.Get || method == mad.Set:
		return a.request(port, slid, m, isTrusted)
	case method == mad.TrapRepress:
		if !isTrusted && !a.hasKey(port, slid, m) || a.traps.repress(m) {
			return Discard
		}
		a.counters.add(Delivered) // a manager at this port may have sent the trap
		return Deliver
	case method == mad.Trap:
		a.counters.add(Delivered)
		return Deliver
	case method == mad.Send:
		a.counters.add(Malformed)
		return Discard
	}
	a.counters.add(BadMethod)
	return a.answer(m, mad.StatusBadMethod)
}

// ExecuteLocal is Execute for CA.LocalMAD, where no manager is below: it refuses what Execute would deliver. It returns
// false if no response is due.
func (a *Agent) ExecuteLocal(port uint8, slid ci.LID, m *ci.MAD) bool {
	return a.executeLocal(port, slid, m, false)
}

// ExecuteTrusted is ExecuteLocal for what the adapter's own driver asks: no M_Key is checked, and since that does not
// show that the owner of the key is alive, a lease goes on.
func (a *Agent) ExecuteTrusted(port uint8, m *ci.MAD) bool { return a.executeLocal(port, 0, m, true) }

func (a *Agent) executeLocal(port uint8, slid ci.LID, m *ci.MAD, isTrusted bool) bool {
	action := a.execute(port, slid, m, isTrusted)
	if action == Deliver {
		action = a.refuse(m)
	}
	return action == Reply
}

// isSubnet reports whether class and versions are those of an SMP.
func isSubnet(m *ci.MAD) bool {
	return isSubnetClass(m) && m[0] == mad.BaseVersion && m[2] == mad.ClassVersionSubnet
}

func isSubnetClass(m *ci.MAD) bool {
	c := mad.Class(m[1])
	return c == mad.ClassSubnetDirected || c == mad.ClassSubnetLID
}

// isRequest reports whether a datagram with the method gets a response.
func isRequest(m mad.Method) bool {
	return m&mad.ResponseMask == 0 && m != mad.TrapRepress && m != mad.Trap && m != mad.Send
}

// request processes a Get or a Set.
func (a *Agent) request(port uint8, slid ci.LID, m *ci.MAD, isTrusted bool) Action {
	q := Request{Port: port, SLID: slid, Set: mad.Method(m[3]) == mad.Set, Attribute: binary.BigEndian.Uint16(m[16:]),
		Modifier: binary.BigEndian.Uint32(m[20:]), Data: m[64:128], MAD: m, Authentic: true}
	if q.Attribute == mad.AttrSMInfo {
		a.counters.add(Delivered)
		return Deliver
	}
	if a.keyed != nil && !isTrusted && !a.mayAccess(&q) {
		return Discard
	}
	if !hasMethod(a.node.Type(), q.Attribute, q.Set) {
		a.counters.add(BadAttribute)
		return a.answer(m, mad.StatusBadMethodAttribute)
	}
	if q.Attribute == mad.AttrNotice {
		return a.answer(m, a.traps.notice(&q))
	}
	status, answered := a.node.Execute(q)
	if !answered {
		a.counters.add(NoResponse)
		return Discard
	}
	switch status {
	case mad.StatusBadMethodAttribute:
		a.counters.add(BadAttribute)
	case mad.StatusBadField:
		a.counters.add(BadField)
	}
	return a.answer(m, status)
}

// answer makes m the response.
func (a *Agent) answer(m *ci.MAD, status uint16) Action {
	m[3] = uint8(mad.GetResp)
	if mad.Class(m[1]) == mad.ClassSubnetDirected {
		status |= mad.StatusDirection
	}
	binary.BigEndian.PutUint16(m[4:], status)
	a.counters.add(Answered)
	return Reply
}
