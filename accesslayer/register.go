package accesslayer

import (
	"fmt"

	"ciddk/ci"
)

var _ ci.Registrar = (*AL)(nil)

// Register takes in an HCA: it opens and queries it before it returns, so the HCA must be ready [SAS-2.2-10, SAS-2.3-01 … -04].
// Clients hear of it afterwards, on a goroutine of their own: Register does not wait for them. If it fails, nothing of the HCA is
// left. Status: InvalidParameter (nil HCA, zero GUID, attributes that contradict), Unsupported (built with another major
// ci.InterfaceVersion), ResourceBusy (GUID registered, or not yet gone), ErrClosed, or what the driver answered.
func (al *AL) Register(hca ci.HCA) error {
	const verb = "Registrar.Register"
	if ci.IsNil(hca) {
		return &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: "the HCA is nil"}
	}
	info := hca.Info()
	switch {
	case info.GUID == 0:
		return &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: "HCAInfo.GUID is zero; a GUID is the only name of an HCA"}
	case info.Version>>16 != ci.InterfaceVersion>>16:
		return &ci.Error{Verb: verb, Status: ci.Unsupported, Detail: fmt.Sprintf("the driver was built with interface version %d.%d, this is %d.%d: rebuild it",
			info.Version>>16, info.Version&0xffff, ci.InterfaceVersion>>16, ci.InterfaceVersion&0xffff)}
	}
	a := &Adapter{al: al, hca: hca, info: info, exec: &serial{}}
	a.n = &node{kind: kindAdapter, obj: a, exec: a.exec, stays: true, cleanup: a.close, born: a.born, dying: a.dying, gone: a.gone}
	if err := a.reserve(verb); err != nil {
		return err
	}
	return a.n.attached(verb, a.open(verb))
}

// reserve takes the GUID, so that of two registrations one fails before it has touched the driver.
func (a *Adapter) reserve(verb string) error {
	al := a.al
	al.mu.Lock()
	if al.closed {
		al.mu.Unlock()
		return kindAL.closed(verb)
	}
	for _, b := range al.adapters {
		if b.info.GUID == a.info.GUID {
			al.mu.Unlock()
			return &ci.Error{Verb: verb, Status: ci.ResourceBusy, Detail: fmt.Sprintf("GUID %016x is registered; deregister it first", uint64(a.info.GUID))}
		}
	}
	al.adapters = append(al.adapters, a)
	al.mu.Unlock()
	err := a.n.attach(al.root, verb)
	if err != nil {
		al.mu.Lock()
		a.gone()
		al.mu.Unlock()
	}
	return err
}

// open opens the driver, and fills the cache of attributes. The one open of the driver serves all clients. Events may come before
// OpenCA has returned: the node keeps them until the adapter is in place.
func (a *Adapter) open(verb string) error {
	ca, err := a.hca.OpenCA(a.info.GUID, a.onEvent, nil)
	if err != nil {
		return fmt.Errorf("accesslayer: opening the HCA: %w", err)
	}
	a.ca = ca
	attr, err := a.query(verb, ca)
	if err != nil {
		a.n.undo = ca.Destroy() != nil // then the reaper tries again, and the GUID is taken until it has
		return fmt.Errorf("accesslayer: querying the HCA: %w", err)
	}
	a.attr.Store(attr)
	return nil
}

// query queries, sets what the access layer serves in the ports' capabilities, and queries again if that changed something: clients are
// told of every EventReregister, so the SM may ask for it (IBTA volume 1, 14.4.11).
func (a *Adapter) query(verb string, ca ci.CA) (*ci.CAAttr, error) {
	attr, err := ca.Query()
	if err == nil {
		err = plausible(verb, a.info, attr)
	}
	if err != nil {
		return nil, err
	}
	changed := false
	for _, p := range attr.Ports {
		if p.Link != ci.LinkInfiniBand || p.Capability&ci.PortCapReregister != 0 {
			continue
		}
		err := ca.Modify(p.Num, ci.PortFieldCapability, ci.PortModify{CapMask: ci.PortCapReregister, Capability: ci.PortCapReregister})
		if err != nil {
			a.al.cfg.Logger.Warn("accesslayer: the port does not take IsClientReregistrationSupported", "guid", a.info.GUID, "port", p.Num, "error", err)
			continue
		}
		changed = true
	}
	if !changed {
		return attr, nil
	}
	if attr, err = ca.Query(); err == nil {
		err = plausible(verb, a.info, attr)
	}
	return attr, err
}

// plausible refuses attributes that the rest of the access layer could not work with.
func plausible(verb string, info ci.HCAInfo, attr *ci.CAAttr) error {
	bad := func(format string, args ...any) error {
		return &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: fmt.Sprintf(format, args...)}
	}
	switch {
	case attr == nil:
		return bad("CA.Query gave no attributes and no error")
	case attr.GUID != info.GUID:
		return bad("CAAttr.GUID is %016x, HCAInfo.GUID %016x", uint64(attr.GUID), uint64(info.GUID))
	case len(attr.Ports) == 0:
		return bad("CAAttr.Ports is empty")
	}
	for i, p := range attr.Ports {
		if int(p.Num) != i+1 {
			return bad("CAAttr.Ports[%d].Num is %d, must be %d", i, p.Num, i+1)
		}
	}
	return nil
}

// born runs when the HCA has become present: clients are told, polling begins. al.mu is held.
func (a *Adapter) born() {
	attr := a.Attr()
	a.al.pnp.post(func() { a.al.pnp.added(a, attr) })
	a.armPoll()
}

// dying runs when the destruction begins, al.mu held.
func (a *Adapter) dying() {
	a.removing = true
	if a.poll != nil {
		a.poll.Stop()
	}
}

// gone gives the GUID back, al.mu held.
func (a *Adapter) gone() {
	for i, b := range a.al.adapters {
		if b == a {
			a.al.adapters = append(a.al.adapters[:i:i], a.al.adapters[i+1:]...)
			return
		}
	}
}

// close ends the driver's open, as the last verb of all.
func (a *Adapter) close() error { return a.ca.Destroy() }

// Deregister takes an HCA out, for the unload of its driver or because it was pulled [SAS-2.2-05 … -09]: no client can open it any
// more; clients are told, the last one registered first; what is left of their objects is destroyed, children before parents; the CA is
// closed. When it returns nil, nothing refers to the HCA any more, and no verb is called.
//
// It does not refuse because the HCA is in use. If the driver refuses to destroy something or to close (its error is returned), or a client
// does not return from a callback within Config.DrainTimeout (Timeout), the HCA stays on its way out, and Deregister may be called
// again to wait or try again. Status: NotFound. Context: drain, so not from a callback.
func (al *AL) Deregister(guid ci.GUID) error {
	const verb = "Registrar.Deregister"
	al.mu.Lock()
	var a *Adapter
	for _, b := range al.adapters {
		if b.info.GUID == guid && b.n.state != creating {
			a = b
		}
	}
	if a == nil {
		al.mu.Unlock()
		return notRegistered(verb, guid)
	}
	if !a.removing {
		a.removing = true
		al.pnp.post(func() { al.pnp.removed(a); a.begin() })
	}
	if a.n.stuck {
		a.n.stuck, a.n.tries = false, 0
		a.n.exec.post(a.n.reap)
	}
	done := a.n.waiter()
	al.mu.Unlock()
	return a.n.await(verb, done)
}

// begin starts the destruction, after the clients were told.
func (a *Adapter) begin() {
	var ready []*node
	a.al.mu.Lock()
	a.n.begin(&ready)
	a.al.mu.Unlock()
	a.al.schedule(ready)
}
