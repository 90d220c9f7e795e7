package accesslayer

import (
	"slices"

	"ciddk/ci"
)

// PortEventType is the type of a port event.
type PortEventType uint8

const (
	PortAdd    PortEventType = 1 + iota // the HCA was registered; the next event reports the state
	PortRemove                          // the HCA was removed
	PortInit
	PortArmed
	PortActive
	PortDown
	PortPKey          // the P_Key table changed
	PortSM            // the LID or SL of the SM changed
	PortGID           // the GID table changed
	PortLID           // the LID or LMC changed
	PortSubnetTimeout // SubnetTimeout changed
	PortReregister    // the SM lost all registrations: register again
)

func (t PortEventType) String() string {
	names := [...]string{"no event", "add", "remove", "init", "armed", "active", "down", "P_Key change",
		"SM change", "GID change",
		"LID change", "subnet timeout change", "reregister"}
	if int(t) < len(names) {
		return names[t]
	}
	return "unknown event"
}

// down reports whether the event is delivered from the last registration to the first.
func (t PortEventType) down() bool { return t == PortRemove || t == PortDown }

// PortEvent is an event of a port.
type PortEvent struct {
	Type PortEventType
	Port uint8        // counted from 1
	Attr *ci.PortAttr // at the time of the event; shared, must not be changed
}

// logical reduces a port state to the four that are reported. A deferred Active still carries data (IBTA volume 1,
// 7.2.7), so it counts as Active. Unknown states count as Down.
func logical(s ci.PortState) ci.PortState {
	switch s {
	case ci.PortInit, ci.PortArmed, ci.PortActive:
		return s
	case ci.PortActiveDefer:
		return ci.PortActive
	}
	return ci.PortDown
}

// reached returns the event for a state.
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

// portChanges returns the events between two snapshots of a port. States that a port passed between the snapshots get
// events, too: a port comes up through Init, Armed and Active, and falls back through Down. Events of going down
// precede other changes, and those of coming up follow them, so that a client finds the new LID in place when the port
// becomes active. Changes of tables are reported only between states Armed and Active, since an SM writes the tables
// while it brings a port up.
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
