package reference

import (
	"net/netip"
	"slices"
	"sync"

	"ciddk/ci"
	"ciddk/rvt"
	"ciddk/wire"
)

// undelivered has the listeners for reports of the network.
type undelivered struct {
	mu   sync.RWMutex // held shared during calls
	list []*func(ci.Undelivered)
}

// OnUndelivered implements ci.UndeliveredReporter, for UDP ports on Linux; other ports have no reports.
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

// watchUndelivered has a port report here.
func (h *HCA) watchUndelivered(num uint8, port rvt.Port) {
	for p := any(port); p != nil; {
		if udp, ok := p.(*udpPort); ok {
			udp.undelivered = func(r ci.Undelivered) {
				r.Port = num
				h.undelivered.mu.RLock()
				defer h.undelivered.mu.RUnlock()
				for _, f := range h.undelivered.list {
					(*f)(r)
				}
			}
			return
		}
		in, ok := p.(interface{ inner() any })
		if !ok {
			return
		}
		p = in.inner()
	}
}

// reportUndelivered reports a datagram of QP1 that came back, from its BTH on, as far as it is quoted. A report that quotes nothing of the MAD
// is useless: nobody could tell it from a forged one.
func (p *udpPort) reportUndelivered(to netip.Addr, quoted []byte, err error) {
	const mad = wire.BTHLen + wire.DETHLen
	var bth wire.BTH
	if p.undelivered == nil || len(quoted) <= mad {
		return
	}
	if bth.Parse(quoted); bth.Opcode != wire.UDSendOnly {
		return
	}
	quoted = quoted[mad:]
	p.undelivered(ci.Undelivered{To: gidOf(to), Payload: quoted[:min(len(quoted), len(ci.MAD{}))], Err: err})
}
