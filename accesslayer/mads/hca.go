package mads

import (
	"errors"
	"fmt"
	"sync"

	"ciddk/accesslayer"
	"ciddk/accesslayer/internal/hold"
	"ciddk/ci"
	"ciddk/sma"
)

// hca is an HCA with its services.
type hca struct {
	m     *Manager
	a     *accesslayer.Adapter
	ca    *accesslayer.CA
	pd    *accesslayer.PD
	ports []*port
	wg    sync.WaitGroup // goroutines that use objects of the HCA
	sma   *sma.Agent     // subnet management of the ports with QP0
	quiet func()         // ends the reports of datagrams that were not delivered
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
	foreign    ci.PortCap // bits that were set before the first agent
}

// attr returns the port's attributes of the last query.
func (p *port) attr() *ci.PortAttr { return &p.h.a.Attr().Ports[p.id.Num-1] }

// open starts the services of an HCA. It returns an error if the HCA has no special QPs.
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
	h.sma = h.newSMA()
	for i := range attr.Ports {
		if err != nil {
			break
		}
		p := &port{m: m, h: h, id: Port{CA: a.GUID(), Num: uint8(i + 1)}, link: attr.Ports[i].Link,
			announcing: hold.NewMutex(),
			foreign:    attr.Ports[i].Capability}
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
			if p.qp[0], e0 = newEndpoint(p, ci.QP0); e0 != nil { // a port whose SMA is in hardware may have no QP0
				p.qp[0] = nil
				log.Info("mads: port has no QP0", "port", p.id.Num, "error", e0)
			}
		}
	}
	if err == nil {
		_, err = h.ca.NewEventHandler(h.onEvent, nil)
	}
	if err != nil {
		log.Error("mads: cannot start MAD services on an HCA", "error", err)
		for _, p := range h.ports {
			p.close()
		}
		h.close()
		return nil, err
	}
	h.quiet, _ = a.OnUndelivered(h.undelivered)
	return h, nil
}

// endpoints returns the endpoints that the port has.
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

// close destroys the objects on the HCA, after its ports were closed.
func (h *hca) close() {
	h.quiet()
	h.sma.Close()
	if h.ca != nil {
		if err := h.ca.Destroy(); err != nil && !errors.Is(err, accesslayer.ErrClosed) {
			h.m.al.Logger().Error("mads: cannot close an HCA", "guid", h.a.GUID(), "error", err)
		}
	}
	h.wg.Wait()
}
