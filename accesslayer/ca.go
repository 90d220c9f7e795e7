package accesslayer

import "ciddk/ci"

// CA is a client's open of an HCA. CI returns its plain view.
type CA struct {
	object
	verbs   caVerbs
	a       *Adapter
	onEvent func(*CA, ci.Event)
}

func (c *CA) Unwrap() any { return c.verbs.CA }

// deliver calls the event callback. Event.Context is nil, since the callback gets the CA.
func (c *CA) deliver(e ci.Event) { e.Context = nil; c.onEvent(c, e) }

// Adapter returns the HCA, with its cached attributes.
func (c *CA) Adapter() *Adapter { return c.a }

// Query queries the driver; Adapter().Attr() returns the result of the last query. Status: InvalidCAHandle with
// ErrClosed.
func (c *CA) Query() (attr *ci.CAAttr, err error) {
	err = c.n.during("CA.Query", func() error { attr, err = c.verbs.Query(); return err })
	return attr, err
}

// Modify sets attributes of a port, and refreshes the cache. Status: as ci.CA.Modify; InvalidCAHandle with ErrClosed.
func (c *CA) Modify(port uint8, set ci.PortField, attr ci.PortModify) error {
	err := c.n.during("CA.Modify", func() error { return c.verbs.Modify(port, set, attr) })
	if err == nil {
		c.a.n.callback(c.a.refresh)
	}
	return err
}

// LocalMAD executes a MAD on a port. After a Set it refreshes the cache, so that a LID that an SMA above the driver
// sets becomes an event. Status: as ci.CA.LocalMAD; InvalidCAHandle with ErrClosed. [SAS-2.1-17]
func (c *CA) LocalMAD(port uint8, src *ci.AVAttr, in, out *ci.MAD) error {
	const methodOffset, methodSet = 3, 0x02 // IBTA volume 1, 13.4.2
	err := c.n.during("CA.LocalMAD", func() error { return c.verbs.LocalMAD(port, src, in, out) })
	if err == nil && in != nil && in[methodOffset] == methodSet {
		c.a.n.callback(c.a.refresh)
	}
	return err
}

// SLForIP returns the service level of an IP port. Status: as ci.CA.SLForIP; InvalidCAHandle with ErrClosed.
func (c *CA) SLForIP(port uint8, ipPort uint16) (sl ci.SL, err error) {
	err = c.n.during("CA.SLForIP", func() error { sl, err = c.verbs.SLForIP(port, ipPort); return err })
	return sl, err
}

// VendorCall executes a private command of the vendor. The driver recovers its own objects from objects. Status: as
// ci.CA.VendorCall; InvalidCAHandle with ErrClosed.
func (c *CA) VendorCall(op *ci.VendorOp, objects ...ci.Object) error {
	return c.n.during("CA.VendorCall", func() error { return c.verbs.VendorCall(op, objects...) })
}

// NewPD creates a protection domain. Status: as ci.CA.AllocatePD; InvalidParameter for PDAlias, which is reserved for
// MAD services; InvalidState with ErrClosed.
func (c *CA) NewPD(typ ci.PDType) (*PD, error) {
	return newPD(c.n, c, "CA.AllocatePD", typ, func() (ci.PD, error) { return c.verbs.AllocatePD(typ) })
}

// NewUser creates the context of a client process. Status: as ci.CA.OpenUser; InvalidState with ErrClosed.
func (c *CA) NewUser(p ci.Process, ub *ci.UserBuffer) (*UserCA, error) {
	const verb = "CA.OpenUser"
	u := &UserCA{ca: c}
	u.n = &node{kind: kindUserCA, obj: u}
	err := u.n.make(c.n, verb, func() (func() error, error) {
		in, err := c.verbs.OpenUser(p, ub)
		u.verbs.UserCA = in
		return destroyer(in), err
	})
	return made(u, err)
}

// NewDMA maps memory into the HCA's DMA space. Status: as ci.CA.MapDMA; InvalidState with ErrClosed.
func (c *CA) NewDMA(mem ci.Memory) (*DMA, error) {
	const verb = "CA.MapDMA"
	d := &DMA{}
	d.n = &node{kind: kindDMA, obj: d}
	err := d.n.make(c.n, verb, func() (func() error, error) {
		in, err := c.verbs.MapDMA(mem)
		d.DMA = in
		return destroyer(in), err
	})
	return made(d, err)
}

// DMA is memory that is mapped into the HCA's DMA space. It is a ci.DMA.
type DMA struct {
	object
	dmaVerbs
}

func (d *DMA) Unwrap() any { return d.dmaVerbs.DMA }

// NewEventHandler adds a handler of events of the CA and its ports. The access layer implements it, also for drivers
// without CapEventHandlers. Status: InvalidParameter (fn is nil), InvalidState with ErrClosed.
func (c *CA) NewEventHandler(fn func(ci.Event), arg any) (*EventHandler, error) {
	const verb = "CA.OnEvent"
	if fn == nil {
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: "the callback is nil"}
	}
	h := &EventHandler{fn: fn, ctx: arg}
	h.n = &node{kind: kindHandler, obj: h}
	return made(h, h.n.make(c.n, verb, nothing))
}

// EventHandler is a handler of CA events. Events are delivered one at a time, on a goroutine of the access layer.
type EventHandler struct {
	object
	fn  func(ci.Event)
	ctx any
}

func (h *EventHandler) deliver(e ci.Event) { e.Context = h.ctx; h.fn(e) }

// UserCA is an open CA as one process uses it. Destroying it destroys the objects of the process; it may be destroyed
// after the process has exited. CI returns its plain view.
type UserCA struct {
	object
	verbs userCAVerbs
	ca    *CA
}

func (u *UserCA) Unwrap() any { return u.verbs.UserCA }

// NewPD creates a protection domain for the process. Status: as CA.NewPD.
func (u *UserCA) NewPD(typ ci.PDType, ub *ci.UserBuffer) (*PD, error) {
	return newPD(u.n, u.ca, "UserCA.AllocatePD", typ, func() (ci.PD, error) { return u.verbs.AllocatePD(typ, ub) })
}

// VendorCall executes a private command for the process. Status: as CA.VendorCall.
func (u *UserCA) VendorCall(op *ci.VendorOp, ub *ci.UserBuffer, objects ...ci.Object) error {
	return u.n.during("UserCA.VendorCall", func() error { return u.verbs.VendorCall(op, ub, objects...) })
}
