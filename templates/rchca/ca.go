package rchca

import (
	"sync"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/ci/driver"
)

// claims returns the capabilities of the adapter, with the files that have their verbs. docs/sas/capabilities.md of the
// kit lists the verbs of each bit.
func claims() ci.Caps {
	c := ci.Caps(0)            // RC needs no bit
	c |= ci.CapUD | ci.CapAV   // ud.go
	c |= ci.CapSRQ             // srq.go
	c |= ci.CapMW1 | ci.CapMW2 // mw.go
	c |= ci.CapLocalMAD        // sma.go
	c |= ci.CapUser            // user.go
	return c
}

type ca struct {
	ci.UnimplementedCA
	refs   driver.Refs
	hca    *HCA
	notify driver.Notifier

	portMu  sync.Mutex
	portCap ci.PortCap // bits set by Modify

	lastPD atomic.Uint32
}

// Query returns a copy that belongs to the caller. Status: InvalidCAHandle.
func (c *ca) Query() (*ci.CAAttr, error) {
	if !c.refs.Alive() {
		return nil, fail("CA.Query", ci.InvalidCAHandle, "")
	}
	i := &c.hca.info
	p := c.hca.port()
	c.portMu.Lock()
	p.Capability |= c.portCap
	c.portMu.Unlock()
	a := &ci.CAAttr{GUID: i.GUID, VendorID: i.VendorID, DeviceID: i.DeviceID, Revision: i.Revision, Caps: claims(),
		MaxPDs: i.MaxPDs, MaxQPs: i.MaxQPs, MaxWRs: i.MaxWRs, MaxSGEs: i.MaxSGEs, MaxReadSGEs: i.MaxSGEs,
		MaxInline: i.MaxInline,
		MaxCQs:    i.MaxCQs, MaxCQEs: i.MaxCQEs, MaxMRs: i.MaxMRs, MaxMRSize: 1 << 40, MaxPartitions: len(p.PKeys),
		MaxRespRes: i.MaxQPs * i.MaxReads, MaxRespResPerQP: i.MaxReads, MaxInitDepthPerQP: i.MaxReads,
		PageSizes: []uint64{i.PageSize}, Vectors: 1, Ports: []ci.PortAttr{p}}
	a.MaxAVs = i.MaxAVs                                                   // ud.go
	a.MaxSRQs, a.MaxSRQWRs, a.MaxSRQSGEs = i.MaxSRQs, i.MaxWRs, i.MaxSGEs // srq.go
	a.MaxMWs = i.MaxMWs                                                   // mw.go
	return a, nil
}

// Modify sets and clears capability bits of the port. The other fields need a claim.
// Status: InvalidPort, InvalidParameter, Unsupported, InvalidCAHandle.
func (c *ca) Modify(port uint8, set ci.PortField, a ci.PortModify) error {
	const verb = "CA.Modify"
	const known = ci.PortFieldShutdown<<1 - 1
	switch {
	case !c.refs.Alive():
		return fail(verb, ci.InvalidCAHandle, "")
	case port != 1:
		return fail(verb, ci.InvalidPort, "the adapter has port 1")
	case set&^known != 0:
		return fail(verb, ci.InvalidParameter, "unknown field")
	case set&^ci.PortFieldCapability != 0:
		return fail(verb, ci.Unsupported, "only capability bits can be changed")
	}
	if s := c.hca.subnet; s != nil && set != 0 { // sma.go
		s.SetCapability(1, a.CapMask, a.Capability)
		return nil
	}
	if set&ci.PortFieldCapability != 0 {
		c.portMu.Lock()
		old := c.portCap
		c.portCap = old&^a.CapMask | a.Capability&a.CapMask
		changed := c.portCap != old
		c.portMu.Unlock()
		if changed {
			c.notify.Event(ci.Event{Type: ci.EventPortTrap, Port: 1})
		}
	}
	return nil
}

// Destroy closes the CA. Status: ResourceBusy, InvalidCAHandle. Context: drain.
func (c *ca) Destroy() error {
	if err := c.refs.BeginDestroy("CA.Destroy", ci.InvalidCAHandle); err != nil {
		return err
	}
	c.notify.Close()
	c.hca.mu.Lock()
	c.hca.open = nil
	c.hca.mu.Unlock()
	return nil
}

// AllocatePD allocates a PD, which is only a number to this hardware.
// Status: InsufficientResources, InvalidParameter, InvalidCAHandle.
func (c *ca) AllocatePD(typ ci.PDType) (ci.PD, error) {
	p, err := c.newPD("CA.AllocatePD", typ, &c.refs)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// newPD allocates a PD below the CA or a process.
func (c *ca) newPD(verb string, typ ci.PDType, parent *driver.Refs) (*pd, error) {
	if typ > ci.PDDatagram || typ == ci.PDAlias {
		return nil, fail(verb, ci.InvalidParameter, "the type of the PD is out of range")
	}
	if !parent.Get() {
		return nil, fail(verb, ci.InvalidCAHandle, "")
	}
	if err := c.hca.pds.Take(verb); err != nil {
		parent.Put()
		return nil, err
	}
	return &pd{parent: parent, hca: c.hca, num: c.lastPD.Add(1)}, nil
}
