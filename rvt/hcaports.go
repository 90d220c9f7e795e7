package rvt

import (
	"fmt"

	"ciddk/ci"
)

// portContext returns what Start gives to a port.
func (h *HCA) portContext(p *port) PortContext {
	i := &h.cfg.Info
	system := h.attr.SystemGUID
	if system == 0 {
		system = i.GUID
	}
	return PortContext{
		Receiver: &receiver{port: p}, Clock: h.clock, Num: p.num, Counters: h.engineCounters,
		Undelivered: func(r ci.Undelivered) { h.undelivered.report(p.num, r) },
		Node: Node{GUID: i.GUID, SystemGUID: system, NumPorts: uint8(len(h.cfg.Ports)), VendorID: i.VendorID,
			DeviceID: i.DeviceID, Revision: i.Revision,
			Description: h.cfg.NodeDescription},
	}
}

// closePorts closes the ports of an HCA that could not be built. The error that led here is the one to report.
func closePorts(ports []Port) {
	for _, p := range ports {
		if !ci.IsNil(p) {
			_ = p.Close()
		}
	}
}

// addCounters adds the counters of a port, and of those that it wraps, to m.
func addCounters(m map[string]uint64, p any) {
	for p != nil {
		if c, ok := p.(CounterPort); ok {
			c.AddCounters(m)
		}
		u, ok := p.(ci.Unwrapper)
		if !ok {
			return
		}
		p = u.Unwrap()
	}
}

// setSystemGUID changes the system image GUID of the adapter and of the nodes of its ports. Each InfiniBand port raises
// an event.
func (h *HCA) setSystemGUID(g ci.GUID) {
	h.sysGUIDMu.Lock() // the adapter and the nodes have the same one
	defer h.sysGUIDMu.Unlock()
	if ci.GUID(h.sysGUID.Swap(uint64(g))) == g {
		return
	}
	for _, p := range h.ports {
		if n, ok := ci.As[SystemGUIDPort](p.Port); ok {
			n.SetSystemGUID(g)
		}
		if p.attr.Load().Link == ci.LinkInfiniBand {
			h.raise(ci.Event{Type: ci.EventSystemGUIDTrap, Port: p.num})
		}
	}
}

// SetLink plugs in (up) or pulls out the cable of a port, counted from 1. Events follow as from a real cable. Errors:
// ci.InvalidPort; ci.Unsupported for a port that is no CablePort.
func (h *HCA) SetLink(num uint8, up bool) error {
	const verb = "HCA.SetLink"
	p := h.port(num)
	if p == nil {
		return h.noPort(verb, num)
	}
	c, ok := ci.As[CablePort](p.Port)
	if !ok {
		return &ci.Error{Verb: verb, Status: ci.Unsupported, Detail: fmt.Sprintf("port %d has no cable to pull "+
			"(rvt.CablePort)", num)}
	}
	p.shut.Store(false) // from now on the port follows its cable
	c.SetLink(up)
	return nil
}

// reopen brings the port up if the last consumer has shut it down.
func (p *port) reopen() {
	if c, ok := ci.As[CablePort](p.Port); ok && p.shut.Swap(false) {
		c.SetLink(true)
	}
}
