package mads

import (
	"errors"
	"fmt"
	"sync"

	"ciddk/accesslayer"
	"ciddk/accesslayer/internal/hold"
	"ciddk/ci"
)

// hca is an HCA with its services.
type hca struct {
	m     *Manager
	a     *accesslayer.Adapter
	ca    *accesslayer.CA
	pd    *accesslayer.PD
	ports []*port
	wg    sync.WaitGroup // goroutines that use the HCA's objects
	quiet func()         // ends reports of datagrams that were not delivered
}

// port is a port with its services.
type port struct {
	m     *Manager
	h     *hca
	id    Port
	link  ci.Link
	qp    [2]*endpoint // QP0, or nil, and QP1
	count counters

	announcing hold.Mutex // held while the driver changes the port
	announced  ci.PortCap // bits of the capability mask that agents have set
	foreign    ci.PortCap // that were set before the first agent came
}

// attr are the port's attributes as last seen.
func (p *port) attr() *ci.PortAttr { return &p.h.a.Attr().Ports[p.id.Num-1] }

// open makes the services of an HCA. Its error says that it has none.
func (m *Manager) open(a *accesslayer.Adapter) (*hca, error) {
	attr := a.Attr()
	log := m.al.Logger().With("guid", a.GUID())
	if !attr.Caps.Has(ci.CapSpecialQP) {
		log.Debug("mads: an HCA without special QPs has no MAD services")
		return nil, errors.New("mads: no special QPs (CapSpecialQP)")
	}
	h := &hca{m: m, a: a, quiet: func() {}}
	var err error
	if h.ca, err = m.client.OpenCA(a.GUID(), nil); err == nil {
		h.pd, err = h.ca.NewPD(ci.PDSpecial)
	}
	for i := range attr.Ports {
		if err != nil {
			break
		}
		p := &port{m: m, h: h, id: Port{CA: a.GUID(), Num: uint8(i + 1)}, link: attr.Ports[i].Link, announcing: hold.NewMutex(),
			foreign: attr.Ports[i].Capability}
		if p.link == ci.LinkIWARP {
			continue
		}
		h.ports = append(h.ports, p)
		if p.qp[1], err = newEndpoint(p, ci.QP1); err != nil {
			err = fmt.Errorf("QP1 of port %d: %w", p.id.Num, err)
			break
		}
		if p.link == ci.LinkInfiniBand {
			var e0 error
			if p.qp[0], e0 = newEndpoint(p, ci.QP0); e0 != nil { // a port whose SMA is hardware may have no QP0 to give
				p.qp[0] = nil
				log.Info("mads: a port without QP0", "port", p.id.Num, "error", e0)
			}
		}
	}
	if err != nil {
		log.Error("mads: an HCA without MAD services", "error", err)
		for _, p := range h.ports {
			p.close()
		}
		h.close()
		return nil, err
	}
	h.quiet, _ = a.OnUndelivered(h.undelivered)
	return h, nil
}

// endpoints are those that the port has.
func (p *port) endpoints() []*endpoint {
	var es []*endpoint
	for _, e := range p.qp {
		if e != nil {
			es = append(es, e)
		}
	}
	return es
}

func (p *port) close() {
	for _, e := range p.endpoints() {
		e.close()
	}
}

func (p *port) forgetAVs() {
	for _, e := range p.endpoints() {
		e.mu.Lock()
		e.avs.forget()
		e.mu.Unlock()
	}
}

// close destroys what the HCA has, when its ports are closed.
func (h *hca) close() {
	h.quiet()
	if h.ca != nil {
		if err := h.ca.Destroy(); err != nil && !errors.Is(err, accesslayer.ErrClosed) {
			h.m.al.Logger().Error("mads: closing an HCA", "guid", h.a.GUID(), "error", err)
		}
	}
	h.wg.Wait()
}
