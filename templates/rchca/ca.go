package rchca

import (
	"slices"
	"sync"
	"sync/atomic"

	"ciddk/ci"
)

// claims: subnet management, if any, is the hardware's own business. Each bit added here promises verbs; see docs/sas/capabilities.md.
const claims = ci.CapHardwareSMA

type ca struct {
	ci.UnimplementedCA
	refs
	hca    *HCA
	notify *notifier

	portMu  sync.Mutex
	portCap ci.PortCap // bits that Modify has set

	lastPD atomic.Uint32
}

// Query returns a snapshot that is the caller's. Status: InvalidCAHandle.
func (c *ca) Query() (*ci.CAAttr, error) {
	if !c.alive() {
		return nil, fail("CA.Query", ci.InvalidCAHandle, "")
	}
	i := &c.hca.info
	p := i.Port
	p.Num, p.GIDs, p.PKeys = 1, slices.Clone(p.GIDs), slices.Clone(p.PKeys)
	c.portMu.Lock()
	p.Capability |= c.portCap
	c.portMu.Unlock()
	return &ci.CAAttr{GUID: i.GUID, VendorID: i.VendorID, DeviceID: i.DeviceID, Revision: i.Revision, Caps: claims,
		MaxPDs: i.MaxPDs, MaxQPs: i.MaxQPs, MaxWRs: i.MaxWRs, MaxSGEs: i.MaxSGEs, MaxReadSGEs: i.MaxSGEs, MaxInline: i.MaxInline,
		MaxCQs: i.MaxCQs, MaxCQEs: i.MaxCQEs, MaxMRs: i.MaxMRs, MaxMRSize: 1 << 40, MaxPartitions: len(p.PKeys),
		MaxRespRes: i.MaxQPs * i.MaxReads, MaxRespResPerQP: i.MaxReads, MaxInitDepthPerQP: i.MaxReads,
		PageSizes: []uint64{i.PageSize}, Vectors: 1, Ports: []ci.PortAttr{p}}, nil
}

// Modify sets and clears the port's capability bits; what else there is needs a claim. Status: InvalidPort, InvalidParameter, Unsupported.
func (c *ca) Modify(port uint8, set ci.PortField, a ci.PortModify) error {
	const verb = "CA.Modify"
	const known = ci.PortFieldShutdown<<1 - 1
	switch {
	case !c.alive():
		return fail(verb, ci.InvalidCAHandle, "")
	case port != 1:
		return fail(verb, ci.InvalidPort, "the adapter has port 1")
	case set&^known != 0:
		return fail(verb, ci.InvalidParameter, "unknown field")
	case set&^ci.PortFieldCapability != 0:
		return fail(verb, ci.Unsupported, "only capability bits can be changed")
	}
	if set&ci.PortFieldCapability != 0 {
		c.portMu.Lock()
		old := c.portCap
		c.portCap = old&^a.CapMask | a.Capability&a.CapMask
		changed := c.portCap != old
		c.portMu.Unlock()
		if changed {
			c.notify.event(ci.EventPortTrap, 1)
		}
	}
	return nil
}

// Close ends the open. Status: ResourceBusy, InvalidCAHandle. Context: drain.
func (c *ca) Destroy() error {
	if err := c.kill("CA.Destroy", ci.InvalidCAHandle); err != nil {
		return err
	}
	c.notify.close()
	c.hca.mu.Lock()
	c.hca.open = nil
	c.hca.mu.Unlock()
	return nil
}

// AllocatePD needs nothing of this hardware but a number. Status: InsufficientResources, InvalidParameter.
func (c *ca) AllocatePD(typ ci.PDType) (ci.PD, error) {
	const verb = "CA.AllocatePD"
	if typ > ci.PDDatagram || typ == ci.PDAlias {
		return nil, fail(verb, ci.InvalidParameter, "type of PD")
	}
	if !c.get() {
		return nil, fail(verb, ci.InvalidCAHandle, "")
	}
	if err := c.hca.pds.take(verb); err != nil {
		c.put()
		return nil, err
	}
	return &pd{ca: c, hca: c.hca, num: c.lastPD.Add(1)}, nil
}
