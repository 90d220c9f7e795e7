package mads

import (
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/sma"
)

// onEvent makes traps of the driver's events at ports whose agent is the kit's (SAS-2.1-13). An adapter with an agent
// of its own sends its traps itself. The attributes are those after the event.
func (h *hca) onEvent(e ci.Event) {
	attr := h.a.Attr()
	for _, p := range h.ports {
		if p.qp[0] == nil || p.hasOwnAgent() || e.Port != p.id.Num && !isNodeEvent(&e) {
			continue
		}
		if n, ok := noticeOf(&e, p.id.Num, attr); ok {
			h.sma.Trap(p.id.Num, &n)
		}
	}
}

// isNodeEvent reports whether an event concerns all ports.
func isNodeEvent(e *ci.Event) bool { return e.Type == ci.EventSystemGUIDTrap && e.Port == 0 }

// noticeOf returns the notice of the trap that reports an event of a port (IBTA volume 1, 14.2.5.1). ok is false if the
// event has none. EventMKeyTrap has none here: the kit checks M_Keys before the driver does, and sends trap 256. A
// packet with a wrong key of which the driver reports no details is in the port's counters only.
func noticeOf(e *ci.Event, port uint8, attr *ci.CAAttr) (n mad.Notice, ok bool) {
	n = mad.Notice{Generic: true}
	switch e.Type {
	case ci.EventPortTrap:
		n.Type, n.Trap = mad.NoticeInfo, mad.TrapCapabilityMask
		d := mad.TrapCapability{CapabilityMask: uint32(attr.Ports[port-1].Capability)}
		d.Put(n.Details[:])
	case ci.EventSystemGUIDTrap:
		n.Type, n.Trap = mad.NoticeInfo, mad.TrapSystemGUIDChanged
		d := mad.TrapSystemGUID{GUID: uint64(attr.SystemGUID)}
		d.Put(n.Details[:])
	case ci.EventLinkIntegrity, ci.EventBufferOverrun, ci.EventFlowControlError:
		n.Type, n.Trap = mad.NoticeUrgent, linkTraps[e.Type]
		d := mad.TrapPort{Port: port}
		d.Put(n.Details[:])
	case ci.EventPKeyTrap, ci.EventQKeyTrap:
		if e.Violation == nil {
			return n, false
		}
		n.Type, n.Trap = mad.NoticeSecurity, mad.TrapBadPKey
		if e.Type == ci.EventQKeyTrap {
			n.Trap = mad.TrapBadQKey
		}
		d := sma.KeyTrap(e.Violation)
		d.Put(n.Details[:])
	default:
		return n, false
	}
	return n, true
}

var linkTraps = map[ci.EventType]uint16{ci.EventLinkIntegrity: mad.TrapLinkIntegrity,
	ci.EventBufferOverrun: mad.TrapBufferOverrun, ci.EventFlowControlError: mad.TrapFlowControl}
