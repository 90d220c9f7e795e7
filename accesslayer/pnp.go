package accesslayer

import (
	"context"
	"errors"
	"slices"

	"ciddk/ci"
)

// PnPConfig holds the callbacks for adapters that are registered and removed. The callbacks of all clients run one
// after the other, on a goroutine of the access layer. They must not call what waits for a callback: Deregister,
// AL.Close, Destroy of the registration or Close of its client. While one callback blocks, no other client is notified.
type PnPConfig struct {
	// Add is called for each registered HCA, and for each that is registered later. data is passed to the other
	// callbacks. After an error, no callback is called for that HCA. A nil Add accepts every HCA. An HCA that is
	// already being removed cannot be opened; its Remove follows.
	Add func(a *Adapter) (data any, err error)
	// Remove is called once for each HCA whose Add returned nil, when the HCA is removed or the registration ends. The
	// client should destroy its objects there; the access layer destroys the rest afterwards. May be nil.
	Remove func(a *Adapter, data any)
	// Port is called for each event of a port. May be nil.
	Port func(a *Adapter, data any, e PortEvent)
	// Sync makes RegisterPnP wait until Add has been called for the HCAs that are registered at that time.
	Sync bool
}

// PnP is a registration for events of adapters and ports. Calls of Add and events of ports that come up are delivered
// from the first registration to the last; calls of Remove and events of ports that go down, from the last to the
// first. When Destroy has returned, no callback runs or will run. DestroyAsync does not wait, and may be called from
// the callbacks.
type PnP struct {
	object
	cfg      PnPConfig
	accepted []acceptance // used by the notifier's goroutine only, oldest first
}

type acceptance struct {
	a    *Adapter
	data any
}

// RegisterPnP registers callbacks for adapters and ports. Add is called first for the registered HCAs, oldest first.
// Status: InvalidParameter (no callback), ErrClosed, Timeout (Sync, and the callbacks of clients take longer than
// Config.DrainTimeout; then there is no registration).
func (c *Client) RegisterPnP(cfg PnPConfig) (*PnP, error) {
	const verb = "Client.RegisterPnP"
	if cfg.Add == nil && cfg.Remove == nil && cfg.Port == nil {
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: "Add, Remove and Port are nil"}
	}
	p := &PnP{cfg: cfg}
	nf := c.n.al.pnp
	p.n = &node{kind: kindPnP, obj: p}
	// The notifier holds a reference until it has handled the end of the registration.
	p.n.onDestroy = func() { nf.post(func() { nf.unregister(p) }) }
	if err := p.n.attach(c.n, verb); err != nil {
		return nil, err
	}
	notified := make(chan struct{})
	p.n.al.mu.Lock()
	p.n.refs++
	p.n.onCreated = func() { nf.post(func() { nf.register(p); close(notified) }) }
	p.n.al.mu.Unlock()
	if err := p.n.attached(verb, nil); err != nil {
		return nil, err // the client has been closed meanwhile
	}
	if cfg.Sync {
		if err := p.n.await(verb, notified); err != nil {
			return nil, errors.Join(err, p.DestroyAsync(nil))
		}
	}
	return p, nil
}

// WaitPnP waits until clients have been notified of everything that happened before the call. It must not be called
// from a callback.
func (al *AL) WaitPnP(ctx context.Context) error {
	notified := make(chan struct{})
	al.pnp.post(func() { close(notified) })
	select {
	case <-notified:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// notifier calls the callbacks of clients. Its fields are used on its serial goroutine only, which puts all callbacks
// in one order.
type notifier struct {
	serial
	al      *AL
	present []*presence
	clients []*PnP
}

// presence is an HCA as last reported to clients.
type presence struct {
	a    *Adapter
	attr *ci.CAAttr
}

func (n *notifier) find(a *Adapter) *presence {
	for _, p := range n.present {
		if p.a == a {
			return p
		}
	}
	return nil
}

// added notifies all clients of an HCA, also of one that is being removed: others may have opened it since Register
// returned, and clients without Add have to learn that it goes.
func (n *notifier) added(a *Adapter, attr *ci.CAAttr) {
	h := &presence{a: a, attr: attr}
	n.present = append(n.present, h)
	for _, c := range slices.Clone(n.clients) {
		c.add(a)
	}
	for i := range h.attr.Ports {
		p := &h.attr.Ports[i]
		n.port(a, PortAdd, p)
		n.port(a, reached(logical(p.State)), p)
	}
}

// port notifies all clients of one event.
func (n *notifier) port(a *Adapter, t PortEventType, attr *ci.PortAttr) {
	e := PortEvent{Type: t, Port: attr.Num, Attr: attr}
	clients := slices.Clone(n.clients)
	if t.down() {
		slices.Reverse(clients)
	}
	for _, c := range clients {
		c.port(a, e)
	}
}

func (n *notifier) changed(a *Adapter, attr *ci.CAAttr) {
	h := n.find(a)
	if h == nil {
		return
	}
	was := h.attr
	h.attr = attr
	for i := range attr.Ports {
		for _, t := range portChanges(&was.Ports[i], &attr.Ports[i]) {
			n.port(a, t, &attr.Ports[i])
		}
	}
}

func (n *notifier) reregister(a *Adapter, num uint8) {
	h := n.find(a)
	if h == nil || num == 0 || int(num) > len(h.attr.Ports) {
		return
	}
	n.port(a, PortReregister, &h.attr.Ports[num-1])
}

func (n *notifier) removed(a *Adapter) {
	h := n.find(a)
	if h == nil {
		return
	}
	for i := range h.attr.Ports {
		n.port(a, PortRemove, &h.attr.Ports[i])
	}
	n.present = slices.DeleteFunc(n.present, func(p *presence) bool { return p == h })
	for _, c := range slices.Backward(slices.Clone(n.clients)) {
		c.remove(a)
	}
}

func (n *notifier) register(p *PnP) {
	if !p.live() {
		return
	}
	n.clients = append(n.clients, p)
	for _, h := range n.present {
		p.add(h.a)
		for i := range h.attr.Ports {
			attr := &h.attr.Ports[i]
			p.port(h.a, PortEvent{Type: PortAdd, Port: attr.Num, Attr: attr})
			p.port(h.a, PortEvent{Type: reached(logical(attr.State)), Port: attr.Num, Attr: attr})
		}
	}
}

func (n *notifier) unregister(p *PnP) {
	n.clients = slices.DeleteFunc(n.clients, func(q *PnP) bool { return p == q })
	for _, h := range slices.Backward(n.present) {
		for i := range h.attr.Ports {
			attr := &h.attr.Ports[i]
			p.notify(h.a, PortEvent{Type: PortRemove, Port: attr.Num, Attr: attr})
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
			p.n.al.cfg.Logger.Debug("accesslayer: a client rejected an HCA", "client", p.n.parent.label, "guid",
				a.info.GUID, "error", err)
			return
		}
	}
	p.accepted = append(p.accepted, acceptance{a, data})
}

func (p *PnP) port(a *Adapter, e PortEvent) {
	if p.live() {
		p.notify(a, e)
	}
}

func (p *PnP) notify(a *Adapter, e PortEvent) {
	i := p.index(a)
	if i >= 0 && p.cfg.Port != nil {
		p.cfg.Port(a, p.accepted[i].data, e)
	}
}

// remove deletes the adapter before it calls Remove, so that Remove is called once, whatever it does.
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
