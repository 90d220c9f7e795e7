package mads

import (
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/sma"
)

const permissiveLID = 0xffff

// newSMA returns the subnet management agent of the HCA's ports: CA.LocalMAD does what the hardware does, and package
// sma the rest (SAS-2.1-13).
func (h *hca) newSMA() *sma.Agent {
	node := sma.NewCANode(sma.CANodeConfig{CA: h.ca, Attr: h.a.Attr, Description: h.m.cfg.NodeDescription,
		Changed: func(uint8) { h.a.Poll() }})
	return sma.New(sma.Config{Node: node, Clock: h.m.al.Clock(), SendTrap: h.sendTrap,
		FirstTID: uint64(h.a.GUID()) << 16})
}

// sendTrap sends a trap of the agent from QP0 of a port.
func (h *hca) sendTrap(num uint8, to sma.Manager, m *ci.MAD) {
	for _, p := range h.ports {
		if p.id.Num != num || p.qp[0] == nil {
			continue
		}
		e := p.qp[0]
		e.mu.Lock()
		if !e.closed && !e.crowded() {
			if _, err := e.enqueue(&Address{AV: ci.AVAttr{DLID: to.LID, SL: to.SL}}, m[:]); err != nil {
				p.count.drop(DropSend)
			}
		}
		e.unlock()
	}
}

// hasOwnAgent reports whether the adapter answers SMPs below the driver's interface. Such an adapter may pass them up
// after it has answered them (SAS-2.1-18).
func (p *port) hasOwnAgent() bool {
	attr := p.h.a.Attr()
	return p.attr().HardwareAgents || attr.Caps.Has(ci.CapHardwareSMA) && !attr.Caps.Has(ci.CapLocalMAD)
}

// consumed handles an SMP that the adapter has answered and passed up, and that no manager here has registered for. A
// Set may have changed the port.
func (p *port) consumed(h *mad.Header) {
	p.count.drop(DropConsumed)
	if h.Method == mad.Set {
		p.h.a.Poll()
	}
}

// repress ends the repetition of a trap that this port has sent. It reports whether the TrapRepress was for one.
func (e *endpoint) repress(h *mad.Header, r *Received) bool {
	c := ci.MAD(r.MAD)
	if e.p.h.sma.Repress(e.p.id.Num, r.From.AV.DLID, &c) {
		return true
	}
	e.mu.Lock()
	defer e.unlock()
	if e.waiting(h, r) != nil || !e.p.h.a.Attr().Caps.Has(ci.CapLocalMAD) {
		return false
	}
	e.local.take(r, &c)
	return true
}
