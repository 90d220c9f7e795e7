package rvt

import (
	"slices"
	"sync"

	"ciddk/ci"
)

// undelivered holds the listeners for reports of the network.
type undelivered struct {
	mu   sync.RWMutex // held shared during calls
	list []*func(ci.Undelivered)
}

// OnUndelivered implements ci.UndeliveredReporter. Reports come from ports that call PortContext.Undelivered.
func (h *HCA) OnUndelivered(fn func(ci.Undelivered)) (stop func()) {
	u := &h.undelivered
	u.mu.Lock()
	defer u.mu.Unlock()
	u.list = append(u.list, &fn)
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.list = slices.DeleteFunc(u.list, func(f *func(ci.Undelivered)) bool { return f == &fn })
	}
}

// report passes a report of a port on.
func (u *undelivered) report(port uint8, r ci.Undelivered) {
	r.Port = port
	u.mu.RLock()
	defer u.mu.RUnlock()
	for _, f := range u.list {
		(*f)(r)
	}
}
