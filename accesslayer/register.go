package accesslayer

import (
	"fmt"

	"ciddk/ci"
)

var _ ci.Registrar = (*AL)(nil)

// Register registers an HCA. It opens and queries the HCA before it returns, so the HCA must be ready [SAS-2.2-10,
// SAS-2.3-01 … -04]. Clients are notified afterwards, on another goroutine; Register does not wait for them. If
// Register fails, it leaves nothing behind. Status: InvalidParameter (nil HCA, zero GUID, contradictory attributes),
// Unsupported (built with another major ci.InterfaceVersion), ResourceBusy (GUID registered, or still being removed),
// ErrClosed, or the driver's error.
func (al *AL) Register(hca ci.HCA) error {
	const verb = "Registrar.Register"
	if ci.IsNil(hca) {
		return &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: "the HCA is nil"}
	}
	info := hca.Info()
	switch {
	case info.GUID == 0:
		return &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: "HCAInfo.GUID is zero"}
	case info.Version>>16 != ci.InterfaceVersion>>16:
		return &ci.Error{Verb: verb, Status: ci.Unsupported, Detail: fmt.Sprintf("the driver was built with "+
			"interface version %d.%d, this is %d.%d (rebuild the driver)",
			info.Version>>16, info.Version&0xffff, ci.InterfaceVersion>>16, ci.InterfaceVersion&0xffff)}
	}
	a := &Adapter{al: al, hca: hca, info: info, exec: &serial{}}
	a.n = &node{kind: kindAdapter, obj: a, exec: a.exec, stays: true, cleanup: a.close, onCreated: a.onCreated,
		onDestroy: a.onDestroy, onDestroyed: a.onDestroyed}
	if err := a.reserve(verb); err != nil {
		return err
	}
	return a.n.attached(verb, a.open(verb))
}

// reserve reserves the GUID, so that the second of two registrations fails before it calls the driver.
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
			return &ci.Error{Verb: verb, Status: ci.ResourceBusy, Detail: fmt.Sprintf("GUID %016x is registered "+
				"(deregister it first)", uint64(a.info.GUID))}
		}
	}
	al.adapters = append(al.adapters, a)
	al.mu.Unlock()
	err := a.n.attach(al.root, verb)
	if err != nil {
		al.mu.Lock()
		a.onDestroyed()
		al.mu.Unlock()
	}
	return err
}

// open opens the driver and fills the cache of attributes. All clients share this open. Events may arrive before OpenCA
// has returned; the node keeps them until the adapter is registered.
func (a *Adapter) open(verb string) error {
	ca, err := a.hca.OpenCA(a.info.GUID, a.onEvent, nil)
	if err != nil {
		return fmt.Errorf("accesslayer: opening the HCA: %w", err)
	}
	a.ca = ca
	attr, err := a.query(verb, ca)
	if err != nil {
		a.n.undo = ca.Destroy() != nil // the reaper retries, and the GUID stays reserved until then
		return fmt.Errorf("accesslayer: querying the HCA: %w", err)
	}
	a.attr.Store(attr)
	return nil
}

// query queries the HCA and sets IsClientReregistrationSupported in the capabilities of its ports. The access layer
// notifies clients of every EventReregister, so the SM may request it (IBTA volume 1, 14.4.11). If a capability was
// set, query queries again.
func (a *Adapter) query(verb string, ca ci.CA) (*ci.CAAttr, error) {
	attr, err := ca.Query()
	if err == nil {
		err = checkAttr(verb, a.info, attr)
	}
	if err != nil {
		return nil, err
	}
	changed := false
	for _, p := range attr.Ports {
		if p.Link != ci.LinkInfiniBand || p.Capability&ci.PortCapReregister != 0 {
			continue
		}
		err := ca.Modify(p.Num, ci.PortFieldCapability, ci.PortModify{CapMask: ci.PortCapReregister,
			Capability: ci.PortCapReregister})
		if err != nil {
			a.al.cfg.Logger.Warn("accesslayer: cannot set IsClientReregistrationSupported", "guid", a.info.GUID, "port",
				p.Num, "error", err)
			continue
		}
		changed = true
	}
	if !changed {
		return attr, nil
	}
	if attr, err = ca.Query(); err == nil {
		err = checkAttr(verb, a.info, attr)
	}
	return attr, err
}

// checkAttr returns an error for attributes that contradict each other or the HCAInfo.
func checkAttr(verb string, info ci.HCAInfo, attr *ci.CAAttr) error {
	bad := func(format string, args ...any) error {
		return &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: fmt.Sprintf(format, args...)}
	}
	switch {
	case attr == nil:
		return bad("CA.Query returned neither attributes nor an error")
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

// onCreated runs when the HCA has become present. It notifies clients and starts polling. al.mu is held.
func (a *Adapter) onCreated() {
	attr := a.Attr()
	a.al.pnp.post(func() { a.al.pnp.added(a, attr) })
	a.armPoll()
}

// onDestroy runs when the destruction begins. al.mu is held.
func (a *Adapter) onDestroy() {
	a.removing = true
	if a.poll != nil {
		a.poll.Stop()
	}
}

// onDestroyed releases the GUID. al.mu is held.
func (a *Adapter) onDestroyed() {
	for i, b := range a.al.adapters {
		if b == a {
			a.al.adapters = append(a.al.adapters[:i:i], a.al.adapters[i+1:]...)
			return
		}
	}
}

// close closes the driver. It is the last verb on the HCA.
func (a *Adapter) close() error { return a.ca.Destroy() }

// Deregister removes an HCA, because its driver is unloaded or the adapter was pulled [SAS-2.2-05 … -09]. No client can
// open it any more. Clients are notified, the last one registered first; the objects that they leave are destroyed,
// children before parents; then the CA is closed. When Deregister returns nil, nothing refers to the HCA, and no verb
// will be called.
//
// Deregister does not fail because the HCA is in use. If the driver refuses to destroy or to close, Deregister returns
// its error. If a client does not return from a callback within Config.DrainTimeout, it returns Timeout. In both cases
// the removal is still pending, and Deregister may be called again to wait or to retry. Status: NotFound. Context:
// drain, so not from a callback.
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

// begin starts the destruction, after the clients were notified.
func (a *Adapter) begin() {
	var ready []*node
	a.al.mu.Lock()
	a.n.begin(&ready)
	a.al.mu.Unlock()
	a.al.schedule(ready)
}
