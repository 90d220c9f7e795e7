package accesslayer

import (
	"context"
	"errors"
	"slices"

	"ciddk/ci"
)

// PnPConfig is what a client wants to hear of HCAs coming and going. All callbacks of all clients run one after the other, on a
// goroutine of the access layer: they may call anything but what waits for a callback (Deregister, AL.Close, and Close or Destroy of
// the registration or its client), and while one blocks, nobody else is told anything.
type PnPConfig struct {
	// Add is called for every HCA that is present and for each that comes. data is the client's, for the other callbacks. After an
	// error nothing more is heard of that HCA. nil accepts everything.
	Add func(a *Adapter) (data any, err error)
	// Remove is called once for each HCA whose Add returned nil: when the HCA goes, or the registration. The client should close what
	// it has there; what it leaves is destroyed afterwards. May be nil.
	Remove func(a *Adapter, data any)
	// Port is called for each change of a port. May be nil.
	Port func(a *Adapter, data any, e PortEvent)
	// Sync makes RegisterPnP wait until the HCAs present at that time have been reported.
	Sync bool
}

// PnP is a registration. Adds and events of ports that come up run from the first registrant to the last, removes and events of ports
// that go down from the last to the first. When Destroy or Close has returned, no callback runs or will run; DestroyAsync does not wait,
// and may be called from the callbacks.
type PnP struct {
	object
	cfg      PnPConfig
	accepted []acceptance // used by the notifier's goroutine only, oldest first
}

type acceptance struct {
	a    *Adapter
	data any
}

// RegisterPnP begins to tell the client of HCAs: first of those present, oldest first, then of changes.
// Status: InvalidParameter (no callback at all), ErrClosed, Timeout (Sync, and clients' callbacks take longer than Config.DrainTimeout;
// then there is no registration).
func (c *Client) RegisterPnP(cfg PnPConfig) (*PnP, error) {
	const verb = "Client.RegisterPnP"
	if cfg.Add == nil && cfg.Remove == nil && cfg.Port == nil {
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: "no callback given"}
	}
	p := &PnP{cfg: cfg}
	nf := c.n.al.pnp
	p.n = &node{kind: kindPnP, obj: p}
	// The notifier holds a reference from here until it has dealt with the end of the registration.
	p.n.dying = func() { nf.post(func() { nf.unregister(p) }) }
	if err := p.n.attach(c.n, verb); err != nil {
		return nil, err
	}
	told := make(chan struct{})
	p.n.al.mu.Lock()
	p.n.refs++
	p.n.born = func() { nf.post(func() { nf.register(p); close(told) }) }
	p.n.al.mu.Unlock()
	if err := p.n.attached(verb, nil); err != nil {
		return nil, err
	}
	if cfg.Sync {
		if err := p.n.await(verb, told); err != nil {
			return nil, errors.Join(err, p.DestroyAsync(nil))
		}
	}
	return p, nil
}

// WaitPnP waits until clients have been told of everything that had happened when it was called. Not from a callback.
func (al *AL) WaitPnP(ctx context.Context) error {
	told := make(chan struct{})
	al.pnp.post(func() { close(told) })
	select {
	case <-told:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// notifier tells clients. Its fields are used on its serial goroutine only, which gives all callbacks one order.
type notifier struct {
	serial
	al      *AL
	present []*presence
	clients []*PnP
}

// presence is an HCA as clients know it.
type presence struct {
	a    *Adapter
	attr *ci.CAAttr
}

func (nf *notifier) find(a *Adapter) *presence {
	for _, p := range nf.present {
		if p.a == a {
			return p
		}
	}
	return nil
}

func (nf *notifier) added(a *Adapter, attr *ci.CAAttr) {
	nf.al.mu.Lock()
	ok := a.present()
	nf.al.mu.Unlock()
	if !ok { // gone before anybody heard of it
		return
	}
	h := &presence{a: a, attr: attr}
	nf.present = append(nf.present, h)
	for _, c := range slices.Clone(nf.clients) {
		c.add(a)
	}
	for i := range h.attr.Ports {
		p := &h.attr.Ports[i]
		nf.port(a, PortAdd, p)
		nf.port(a, reached(logical(p.State)), p)
	}
}

// port tells all clients of one event.
func (nf *notifier) port(a *Adapter, t PortEventType, attr *ci.PortAttr) {
	e := PortEvent{Type: t, Port: attr.Num, Attr: attr}
	clients := slices.Clone(nf.clients)
	if t.down() {
		slices.Reverse(clients)
	}
	for _, c := range clients {
		c.port(a, e)
	}
}

func (nf *notifier) changed(a *Adapter, attr *ci.CAAttr) {
	h := nf.find(a)
	if h == nil {
		return
	}
	was := h.attr
	h.attr = attr
	for i := range attr.Ports {
		for _, t := range portChanges(&was.Ports[i], &attr.Ports[i]) {
			nf.port(a, t, &attr.Ports[i])
		}
	}
}

func (nf *notifier) reregister(a *Adapter, num uint8) {
	h := nf.find(a)
	if h == nil || num == 0 || int(num) > len(h.attr.Ports) {
		return
	}
	nf.port(a, PortReregister, &h.attr.Ports[num-1])
}

func (nf *notifier) removed(a *Adapter) {
	h := nf.find(a)
	if h == nil {
		return
	}
	for i := range h.attr.Ports {
		nf.port(a, PortRemove, &h.attr.Ports[i])
	}
	nf.present = slices.DeleteFunc(nf.present, func(p *presence) bool { return p == h })
	for _, c := range slices.Backward(slices.Clone(nf.clients)) {
		c.remove(a)
	}
}

func (nf *notifier) register(p *PnP) {
	if !p.live() {
		return
	}
	nf.clients = append(nf.clients, p)
	for _, h := range nf.present {
		p.add(h.a)
		for i := range h.attr.Ports {
			attr := &h.attr.Ports[i]
			p.port(h.a, PortEvent{Type: PortAdd, Port: attr.Num, Attr: attr})
			p.port(h.a, PortEvent{Type: reached(logical(attr.State)), Port: attr.Num, Attr: attr})
		}
	}
}

func (nf *notifier) unregister(p *PnP) {
	nf.clients = slices.DeleteFunc(nf.clients, func(q *PnP) bool { return p == q })
	for _, h := range slices.Backward(nf.present) {
		for i := range h.attr.Ports {
			attr := &h.attr.Ports[i]
			p.tell(h.a, PortEvent{Type: PortRemove, Port: attr.Num, Attr: attr})
		}
		p.remove(h.a)
	}
	p.n.leave()
}

func (p *PnP) live() bool {
	p.n.al.mu.Lock()
	defer p.n.al.mu.Unlock()
	return p.n.state == alive
}

func (p *PnP) add(a *Adapter) {
	if !p.live() {
		return
	}
	var data any
	if p.cfg.Add != nil {
		var err error
		if data, err = p.cfg.Add(a); err != nil {
			p.n.al.cfg.Logger.Debug("accesslayer: a client does not want an HCA", "client", p.n.parent.label, "guid", a.info.GUID, "error", err)
			return
		}
	}
	p.accepted = append(p.accepted, acceptance{a, data})
}

func (p *PnP) port(a *Adapter, e PortEvent) {
	if p.live() {
		p.tell(a, e)
	}
}

func (p *PnP) tell(a *Adapter, e PortEvent) {
	i := p.index(a)
	if i >= 0 && p.cfg.Port != nil {
		p.cfg.Port(a, p.accepted[i].data, e)
	}
}

// remove forgets before it calls, so that whatever Remove does, there is no second.
func (p *PnP) remove(a *Adapter) {
	i := p.index(a)
	if i < 0 {
		return
	}
	data := p.accepted[i].data
	p.accepted = slices.Delete(p.accepted, i, i+1)
	if p.cfg.Remove != nil {
		p.cfg.Remove(a, data)
	}
}

func (p *PnP) index(a *Adapter) int {
	return slices.IndexFunc(p.accepted, func(x acceptance) bool { return x.a == a })
}
