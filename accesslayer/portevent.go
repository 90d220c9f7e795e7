package accesslayer

import (
	"slices"

	"ciddk/ci"
)

// PortEventType is what happened to a port.
type PortEventType uint8

const (
	PortAdd    PortEventType = 1 + iota // with the HCA; the next event tells the state
	PortRemove                          // with the HCA
	PortInit
	PortArmed
	PortActive
	PortDown
	PortPKey          // P_Key table changed
	PortSM            // LID or SL of the SM changed
	PortGID           // GID table changed
	PortLID           // LID or LMC changed
	PortSubnetTimeout // SubnetTimeout changed
	PortReregister    // the SM has lost registrations: make them again
)

func (t PortEventType) String() string {
	names := [...]string{"no event", "add", "remove", "init", "armed", "active", "down", "P_Key change", "SM change", "GID change",
		"LID change", "subnet timeout change", "reregister"}
	if int(t) < len(names) {
		return names[t]
	}
	return "unknown event"
}

// down tells events that go from the last registrant to the first.
func (t PortEventType) down() bool { return t == PortRemove || t == PortDown }

// PortEvent is an event of one port.
type PortEvent struct {
	Type PortEventType
	Port uint8        // from 1
	Attr *ci.PortAttr // as of this event; shared, read only
}

// logical reduces a port state to the four that are reported: a deferred Active still carries data (IBTA volume 1, 7.2.7), anything
// unknown does not.
func logical(s ci.PortState) ci.PortState {
	switch s {
	case ci.PortInit, ci.PortArmed, ci.PortActive:
		return s
	case ci.PortActiveDefer:
		return ci.PortActive
	}
	return ci.PortDown
}

// reached is the event that says that a state was reached.
func reached(s ci.PortState) PortEventType {
	switch s {
	case ci.PortInit:
		return PortInit
	case ci.PortArmed:
		return PortArmed
	case ci.PortActive:
		return PortActive
	}
	return PortDown
}

// portChanges lists the events that lead from one snapshot of a port to the next. States that passed unseen are made up for: a port
// comes up by Init, Armed, Active, and whatever goes back goes through Down. Going down comes before other changes and coming up
// after them, so that a client finds the new LID in place when the port becomes active. Tables count only when they held before and
// hold now, in Armed or Active; what an SM writes while it brings a port up is no change.
func portChanges(was, is *ci.PortAttr) (events []PortEventType) {
	from, to := logical(was.State), logical(is.State)
	if to < from {
		events = append(events, PortDown)
	}
	if was.LID != is.LID || was.LMC != is.LMC {
		events = append(events, PortLID)
	}
	if was.SMLID != is.SMLID || was.SMSL != is.SMSL {
		events = append(events, PortSM)
	}
	if was.SubnetTimeout != is.SubnetTimeout {
		events = append(events, PortSubnetTimeout)
	}
	if from >= ci.PortArmed && to >= ci.PortArmed {
		if !slices.Equal(was.PKeys, is.PKeys) {
			events = append(events, PortPKey)
		}
		if !slices.Equal(was.GIDs, is.GIDs) {
			events = append(events, PortGID)
		}
	}
	if to < from {
		from = ci.PortDown
	}
	for s := from + 1; s <= to; s++ {
		events = append(events, reached(s))
	}
	return events
}
