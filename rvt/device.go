package rvt

import (
	"ciddk/ci"
)

// drive receives on the CA's ports once, without blocking, and gives a turn to a QP of each port's run queue. A Poll of an empty CQ calls it.
func (h *HCA) drive() bool {
	n := 0
	for _, p := range h.ports {
		if p.driver != nil {
			n += p.driver.Drive()
		}
		if p.turns.waiting.Load() > 0 && p.turns.one(true) {
			n++
		}
	}
	return n > 0
}

// attend has the ports receive by themselves, for a consumer that waits for an event.
func (h *HCA) attend() {
	for _, p := range h.ports {
		if p.driver != nil {
			p.driver.Attend()
		}
	}
}

func (h *HCA) systemGUID() ci.GUID { return ci.GUID(h.sysGUID.Load()) }
