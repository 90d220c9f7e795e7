package sma

import (
	"ciddk/ci"
	"ciddk/mad"
)

// Physical states of a port in PortInfo.PhysState (IBTA volume 1, 14.2.5.6).
const (
	PhysNoChange uint8 = 0 // in a Set
	PhysSleep    uint8 = 1
	PhysPolling  uint8 = 2
	PhysDisabled uint8 = 3
	PhysTraining uint8 = 4
	PhysLinkUp   uint8 = 5
)

// LID ranges (4.1.3).
const maxUnicastLID = 0xbfff

// A PortKind selects the rules for Set(PortInfo), which differ in the components that a port has.
type PortKind uint8

// Port kinds.
const (
	KindCA         PortKind = iota // a port of a channel adapter or router
	KindSwitchBase                 // port 0 of a switch: it has addresses and a manager, but no link
	KindSwitchPort                 // an external port of a switch: it has a link, but no address
)

func (k PortKind) hasAddress() bool { return k != KindSwitchPort }
func (k PortKind) hasLink() bool    { return k != KindSwitchBase }

// InvalidPortInfo returns the name of the first component that a Set must not have in the port's current state, or "".
// If there is one, the agent answers mad.StatusBadField, and nothing of the Set is applied (14.2.5.6). Read-only
// components are not checked: a Set ignores them.
func InvalidPortInfo(k PortKind, now, want *mad.PortInfo) (component string) {
	if k.hasAddress() {
		if component = invalidAddress(want); component != "" {
			return component
		}
	}
	if k.hasLink() {
		return invalidLink(now, want)
	}
	return ""
}

func invalidAddress(w *mad.PortInfo) string {
	switch {
	case w.LID == 0 || w.LID > maxUnicastLID || w.LID&(1<<w.LMC-1) != 0: // an aligned range ends before 0xc000, too
		return "LID"
	case w.MasterSMLID == 0 || w.MasterSMLID > maxUnicastLID:
		return "MasterSMLID"
	}
	return ""
}

func invalidLink(now, w *mad.PortInfo) string {
	switch {
	case !canSetState(ci.PortState(now.State), ci.PortState(w.State)):
		return "State"
	case w.PhysState > PhysDisabled || w.PhysState != PhysNoChange && w.State > uint8(ci.PortDown):
		return "PhysState"
	case w.LinkDownDefault > PhysPolling:
		return "LinkDownDefault"
	case w.WidthEnabled != 0xff && w.WidthEnabled&^now.WidthSupported != 0:
		return "WidthEnabled"
	case w.SpeedEnabled != 15 && w.SpeedEnabled&^now.SpeedSupported != 0:
		return "SpeedEnabled"
	case hasExtendedSpeeds(now) && w.SpeedExtEnabled < noExtendedSpeed && w.SpeedExtEnabled&^now.SpeedExtSupp != 0:
		return "SpeedExtEnabled"
	case w.NeighborMTU == 0 || w.NeighborMTU > now.MTUCap:
		return "NeighborMTU"
	case w.OperationalVLs > now.VLCap:
		return "OperationalVLs"
	}
	return ""
}

// Values of SpeedExtEnabled that are no sets of speeds.
const (
	noExtendedSpeed   = 30
	allExtendedSpeeds = 31
)

func hasExtendedSpeeds(p *mad.PortInfo) bool { return p.CapabilityMask&(1<<14) != 0 }

// canSetState reports whether a Set may request a logical state: 0 changes nothing, Down takes the link down, and
// otherwise the next state is Armed after Init and Active after Armed (7.2.7).
func canSetState(now, want ci.PortState) bool {
	switch want {
	case 0, ci.PortDown:
		return true
	case ci.PortArmed:
		return now == ci.PortInit || now == ci.PortArmed
	case ci.PortActive:
		return now == ci.PortArmed || now == ci.PortActive
	}
	return false
}

// ApplyPortInfo applies a Set that InvalidPortInfo has accepted, and returns what has changed. If train is not
// PhysNoChange, the physical link is to go to that state now: PhysPolling, PhysSleep or PhysDisabled.
func ApplyPortInfo(k PortKind, now, want *mad.PortInfo) (c Change, train uint8) {
	if k.hasAddress() {
		c = applyAddress(now, want)
	}
	if k.hasLink() {
		var d Change
		d, train = applyLink(now, want)
		c |= d
	}
	if now.SubnetTimeout != want.SubnetTimeout {
		c |= ChangeTimeout
	}
	now.SubnetTimeout, now.McastTrapSupp = want.SubnetTimeout, want.McastTrapSupp
	for _, f := range [...]struct{ to, from *uint16 }{{&now.MKeyViolations, &want.MKeyViolations},
		{&now.PKeyViolations, &want.PKeyViolations}, {&now.QKeyViolations, &want.QKeyViolations}} {
		if *f.from == 0 {
			*f.to = 0
		}
	}
	return c, train
}

func applyAddress(now, w *mad.PortInfo) (c Change) {
	note := func(changed bool, bit Change) {
		if changed {
			c |= bit
		}
	}
	note(w.LID != now.LID || w.LMC != now.LMC, ChangeLID)
	note(w.MasterSMLID != now.MasterSMLID || w.MasterSMSL != now.MasterSMSL, ChangeSM)
	note(w.GIDPrefix != now.GIDPrefix, ChangeGIDPrefix)
	note(w.ClientReregister, ChangeReregister)
	note(w.MKey != now.MKey || w.MKeyProtect != now.MKeyProtect || w.MKeyLease != now.MKeyLease, ChangeMKey)
	note(w.InitTypeReply != now.InitTypeReply, ChangeTimeout)
	now.MKey, now.MKeyProtect, now.MKeyLease = w.MKey, w.MKeyProtect, w.MKeyLease
	now.GIDPrefix, now.LID, now.LMC = w.GIDPrefix, w.LID, w.LMC
	now.MasterSMLID, now.MasterSMSL = w.MasterSMLID, w.MasterSMSL
	now.InitType, now.InitTypeReply = w.InitType, w.InitTypeReply
	return c
}

func applyLink(now, w *mad.PortInfo) (c Change, train uint8) {
	before := *now
	switch w.WidthEnabled {
	case 0:
	case 0xff:
		now.WidthEnabled = now.WidthSupported
	default:
		now.WidthEnabled = w.WidthEnabled
	}
	switch w.SpeedEnabled {
	case 0:
	case 15:
		now.SpeedEnabled = now.SpeedSupported
	default:
		now.SpeedEnabled = w.SpeedEnabled
	}
	if hasExtendedSpeeds(now) {
		switch w.SpeedExtEnabled {
		case 0:
		case noExtendedSpeed:
			now.SpeedExtEnabled = 0
		case allExtendedSpeeds:
			now.SpeedExtEnabled = now.SpeedExtSupp
		default:
			now.SpeedExtEnabled = w.SpeedExtEnabled
		}
	}
	now.NeighborMTU = w.NeighborMTU
	if w.OperationalVLs != 0 {
		now.OperationalVLs = w.OperationalVLs
	}
	if w.LinkDownDefault != 0 {
		now.LinkDownDefault = w.LinkDownDefault
	}
	now.VLHighLimit, now.Enforce = w.VLHighLimit, w.Enforce
	now.LocalPhyErrors, now.OverrunErrors = w.LocalPhyErrors, w.OverrunErrors
	now.HOQLife, now.VLStallCount = w.HOQLife, w.VLStallCount
	if now.NeighborMTU != before.NeighborMTU {
		c |= ChangeMTU
	}
	if now.OperationalVLs != before.OperationalVLs || now.VLHighLimit != before.VLHighLimit {
		c |= ChangeVLs
	}
	if now.WidthEnabled != before.WidthEnabled || now.SpeedEnabled != before.SpeedEnabled ||
		now.SpeedExtEnabled != before.SpeedExtEnabled {
		c |= ChangeSpeed
	}
	if now.Enforce != before.Enforce {
		c |= ChangeEnforce
	}
	d, train := applyState(now, w)
	return c | d, train
}

// applyState applies the requested logical and physical states.
func applyState(now, w *mad.PortInfo) (c Change, train uint8) {
	old := ci.PortState(now.State)
	switch state := ci.PortState(w.State); {
	case w.PhysState != PhysNoChange:
		train = w.PhysState
	case state == ci.PortDown && now.PhysState != PhysDisabled:
		train = PhysPolling
		if now.LinkDownDefault == PhysSleep {
			train = PhysSleep
		}
	case state >= ci.PortArmed && state != old:
		now.State = w.State
		if state == ci.PortActive {
			return ChangeActive, PhysNoChange
		}
		return ChangeArmed, PhysNoChange
	}
	if train != PhysNoChange {
		now.State, now.PhysState = uint8(ci.PortDown), train
		c = downChange(old)
	}
	return c, train
}

// downChange returns the changes of a port that goes down.
func downChange(old ci.PortState) (c Change) {
	if old != ci.PortDown {
		c = ChangeDown
	}
	return c
}
