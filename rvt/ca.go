package rvt

import (
	"fmt"
	"slices"

	"ciddk/ci"
	"ciddk/ci/driver"
)

// CA is an open HCA. It implements ci.CA.
type CA struct {
	ci.UnimplementedCA
	refs     driver.Refs
	hca      *HCA
	handlers driver.Handlers
}

// Query returns a snapshot of the attributes.
func (c *CA) Query() (*ci.CAAttr, error) {
	if !c.refs.Alive() {
		return nil, fail("CA.Query", ci.InvalidCAHandle)
	}
	a := c.hca.attr
	a.PageSizes = slices.Clone(a.PageSizes)
	a.SystemGUID = c.hca.systemGUID()
	for _, p := range c.hca.ports {
		c.hca.refreshPort(p) // not every change raises an event
		pa := *p.attr.Load()
		pa.GIDs, pa.PKeys = slices.Clone(pa.GIDs), slices.Clone(pa.PKeys)
		pa.MTUs = slices.Clone(pa.MTUs)
		pa.PKeyErrors, pa.QKeyErrors = uint16(p.pkeyErrors.Load()), uint16(p.qkeyErrors.Load())
		a.Ports = append(a.Ports, pa)
	}
	return &a, nil
}

// Modify changes attributes of a port.
func (c *CA) Modify(num uint8, set ci.PortField, attr ci.PortModify) error {
	const verb = "CA.Modify"
	const known = ci.PortFieldCapability | ci.PortFieldPKeyErrors | ci.PortFieldQKeyErrors | ci.PortFieldInitType |
		ci.PortFieldSystemGUID | ci.PortFieldShutdown
	if !c.refs.Alive() {
		return fail(verb, ci.InvalidCAHandle)
	}
	p := c.hca.port(num)
	if p == nil {
		return c.hca.noPort(verb, num)
	}
	if set&^known != 0 {
		return failf(verb, ci.InvalidParameter, "unknown field")
	}
	for _, f := range []struct {
		field ci.PortField
		bit   ci.Caps
	}{{ci.PortFieldPKeyErrors, ci.CapPKeyCounter}, {ci.PortFieldQKeyErrors, ci.CapQKeyCounter},
		{ci.PortFieldInitType, ci.CapInitType}, {ci.PortFieldSystemGUID, ci.CapSystemGUID},
		{ci.PortFieldShutdown, ci.CapShutdownPort}} {
		if set&f.field != 0 && !c.hca.attr.Caps.Has(f.bit) {
			return fail(verb, ci.Unsupported)
		}
	}
	if link := set & (ci.PortFieldCapability | ci.PortFieldInitType | ci.PortFieldShutdown); link != 0 {
		wasUp := p.Port.Attr().State != ci.PortDown
		if err := p.Port.Modify(link, attr); err != nil {
			return failErr(verb, ci.StatusOf(err), err)
		}
		if set&ci.PortFieldShutdown != 0 && wasUp {
			p.shut.Store(true)
		}
	}
	if set&ci.PortFieldPKeyErrors != 0 {
		p.pkeyErrors.Store(uint32(attr.PKeyErrors))
	}
	if set&ci.PortFieldQKeyErrors != 0 {
		p.qkeyErrors.Store(uint32(attr.QKeyErrors))
	}
	if set&ci.PortFieldSystemGUID != 0 {
		c.hca.setSystemGUID(attr.SystemGUID)
	}
	c.hca.refreshPort(p)
	return nil
}

// Destroy closes the adapter. It fails with ResourceBusy while objects exist.
func (c *CA) Destroy() error {
	if err := c.refs.BeginDestroy("CA.Destroy", ci.InvalidCAHandle); err != nil {
		return err
	}
	c.handlers.Close()
	c.hca.open.CompareAndSwap(c, nil)
	return nil
}

// AllocatePD creates a protection domain.
func (c *CA) AllocatePD(typ ci.PDType) (ci.PD, error) {
	p, err := c.newPD("CA.AllocatePD", typ)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// OnEvent adds a handler for events of the CA and its ports.
func (c *CA) OnEvent(fn func(ci.Event), arg any) (ci.Object, error) {
	if !c.hca.attr.Caps.Has(ci.CapEventHandlers) {
		return c.UnimplementedCA.OnEvent(fn, arg)
	}
	h, err := c.handlers.OnEvent(&c.refs, fn, arg)
	if err != nil {
		return nil, err
	}
	c.hca.limit[kindHandler].Add(1)
	return &eventHandler{h, c}, nil
}

// eventHandler is a handler that OnEvent has added.
type eventHandler struct {
	*driver.Handler
	ca *CA
}

func (e *eventHandler) Destroy() error {
	err := e.Handler.Destroy()
	if err == nil {
		e.ca.hca.drop(kindHandler)
	}
	return err
}

// LocalMAD executes a management datagram on the agents of a port.
func (c *CA) LocalMAD(num uint8, src *ci.AVAttr, in, out *ci.MAD) error {
	const verb = "CA.LocalMAD"
	switch {
	case !c.refs.Alive():
		return fail(verb, ci.InvalidCAHandle)
	case !c.hca.attr.Caps.Has(ci.CapLocalMAD):
		return c.UnimplementedCA.LocalMAD(num, src, in, out)
	case c.hca.port(num) == nil:
		return c.hca.noPort(verb, num)
	case in == nil || out == nil:
		return failf(verb, ci.InvalidParameter, "in or out is nil")
	}
	if err := c.hca.cfg.Ops.LocalMAD(num, src, in, out); err != nil {
		return failErr(verb, ci.StatusOf(err), err)
	}
	// A MAD may change what no event reports, such as a port that is armed. A query shows the change [SAS-2.1-14].
	c.hca.refreshPort(c.hca.port(num))
	return nil
}

// SLForIP returns the service level of an IP port.
func (c *CA) SLForIP(num uint8, ipPort uint16) (ci.SL, error) {
	const verb = "CA.SLForIP"
	switch {
	case !c.refs.Alive():
		return 0, fail(verb, ci.InvalidCAHandle)
	case !c.hca.attr.Caps.Has(ci.CapSLForIP):
		return c.UnimplementedCA.SLForIP(num, ipPort)
	case c.hca.port(num) == nil:
		return 0, c.hca.noPort(verb, num)
	}
	return c.hca.cfg.Ops.SLForIP(num, ipPort)
}

// VendorCall executes an operation that is private to the vendor.
func (c *CA) VendorCall(op *ci.VendorOp, objects ...ci.Object) error {
	const verb = "CA.VendorCall"
	switch {
	case !c.refs.Alive():
		return fail(verb, ci.InvalidCAHandle)
	case !c.hca.attr.Caps.Has(ci.CapVendorCall):
		return c.UnimplementedCA.VendorCall(op, objects...)
	case op == nil:
		return failf(verb, ci.InvalidParameter, "op is nil")
	}
	for i, o := range objects {
		if e, ok := ci.As[engineObject](o); !ok || !e.isAliveOn(&c.hca.device) {
			return handle(verb, ci.InvalidHandle, fmt.Sprintf("objects[%d]", i), o)
		}
	}
	return c.hca.cfg.Ops.VendorCall(op, objects)
}
