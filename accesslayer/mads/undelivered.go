package mads

import (
	"ciddk/ci"
	"ciddk/mad"
)

// undelivered passes a report of the network to the agents of the datagram's class.
func (h *hca) undelivered(u ci.Undelivered) {
	if len(u.Payload) < mad.HeaderLen {
		return
	}
	class := mad.Class(u.Payload[1])
	for _, p := range h.ports {
		if p.id.Num != u.Port || p.qp[1] == nil {
			continue
		}
		for _, a := range p.qp[1].table.Load().agents {
			if f := a.cfg.OnUndelivered; f != nil && a.cfg.Class == class && !a.closing.Load() {
				f(&Undelivered{To: u.To, MAD: u.Payload, Err: u.Err})
			}
		}
	}
}
