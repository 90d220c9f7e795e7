package accesslayer

import (
	"slices"

	"ciddk/ci"
)

// refreshes is the set of events after which the cached attributes may be out of date.
var refreshes = map[ci.EventType]bool{
	ci.EventPortActive: true, ci.EventPortDown: true, ci.EventPortInit: true, ci.EventPortTrap: true,
	ci.EventSystemGUIDTrap: true, ci.EventLIDChange: true,
	ci.EventPKeyChange: true, ci.EventSMChange: true, ci.EventGIDChange: true, ci.EventReregister: true,
	ci.EventResetEnd: true,
}

// onEvent is the driver's callback for events of the CA and its ports. It queues a copy of the event.
func (a *Adapter) onEvent(e ci.Event) { a.n.callback(func() { a.handle(e) }) }

// handle refreshes the cache before it forwards the event, so that clients see the change that the event announces.
func (a *Adapter) handle(e ci.Event) {
	if refreshes[e.Type] {
		a.refresh()
	}
	a.forward(e)
	if e.Type == ci.EventReregister {
		a.al.pnp.post(func() { a.al.pnp.reregister(a, e.Port) })
	}
}

// forward delivers the event to every open of the CA, in the order of the opens.
func (a *Adapter) forward(e ci.Event) {
	type target struct {
		n    *node
		call func(ci.Event)
	}
	var targets []target
	a.al.mu.Lock()
	opens := newestFirst(a.n.users)
	slices.Reverse(opens)
	for _, n := range opens {
		if ca := n.obj.(*CA); ca.onEvent != nil {
			targets = append(targets, target{n, ca.deliver})
		}
		for k := n.first; k != nil; k = k.next {
			if h, ok := k.obj.(*EventHandler); ok {
				targets = append(targets, target{k, h.deliver})
			}
		}
	}
	a.al.mu.Unlock()
	for _, t := range targets {
		t.n.callback(func() { t.call(e) })
	}
}

// Poll queries the driver soon, and notifies the clients of changes, as after an event of the driver. It does not
// block. Drivers need not raise events for changes that a subnet manager makes (SAS-2.1-19); the caller has seen one.
func (a *Adapter) Poll() { a.n.callback(a.refresh) }

// refresh queries the driver, and notifies the clients of changes. It runs on the goroutine of the adapter's events
// only, so that an older result never replaces a newer one.
func (a *Adapter) refresh() {
	attr, err := a.ca.Query()
	if err == nil {
		err = checkAttr("CA.Query", a.info, attr)
	}
	if err == nil && len(attr.Ports) != len(a.Attr().Ports) {
		err = &ci.Error{Verb: "CA.Query", Status: ci.InvalidParameter, Detail: "the number of ports changed"}
	}
	if err != nil {
		a.al.cfg.Logger.Warn("accesslayer: cannot query the HCA; its attributes may be out of date", "guid",
			a.info.GUID, "error", err)
		return
	}
	a.attr.Store(attr)
	a.al.pnp.post(func() { a.al.pnp.changed(a, attr) })
}

// armPoll starts the timer of the next query. al.mu is held.
func (a *Adapter) armPoll() {
	every := a.al.cfg.PollInterval
	if every < 0 || !a.present() {
		return
	}
	a.poll = a.al.cfg.Clock.AfterFunc(every, func() {
		a.n.callback(func() {
			a.refresh()
			a.al.mu.Lock()
			defer a.al.mu.Unlock()
			a.armPoll()
		})
	})
}
