//go:build linux && (amd64 || arm64)

package verbs

import (
	"ciddk/ci"
	"ciddk/ci/driver"
)

type ca struct {
	ci.UnimplementedCA
	refs     driver.Refs
	hca      *HCA
	handlers driver.Handlers
}

// Query returns a copy that belongs to the caller. Status: InvalidCAHandle, or that of the provider's error.
func (c *ca) Query() (*ci.CAAttr, error) {
	const verb = "CA.Query"
	if !c.refs.Alive() {
		return nil, fail(verb, ci.InvalidCAHandle, "")
	}
	h := c.hca
	d := &h.attr
	a := &ci.CAAttr{GUID: h.info.GUID, VendorID: h.info.VendorID, DeviceID: h.info.DeviceID,
		Revision: h.info.Revision, Firmware: firmware(d.Firmware()), Caps: h.claims(),
		MaxPDs: limit(d.MaxPD), MaxAVs: limit(d.MaxAH), MaxQPs: limit(d.MaxQP),
		MaxWRs: limit(d.MaxQPWR), MaxSGEs: limit(d.MaxSGE), MaxReadSGEs: limit(d.MaxSGERd), MaxInline: h.can.inline,
		MaxCQs: limit(d.MaxCQ), MaxCQEs: limit(d.MaxCQE),
		MaxSRQs: limit(d.MaxSRQ), MaxSRQWRs: limit(d.MaxSRQWR), MaxSRQSGEs: limit(d.MaxSRQSGE),
		MaxMRs: limit(d.MaxMR), MaxMWs: limit(d.MaxMW), MaxMRSize: d.MaxMRSize, MaxPartitions: int(d.MaxPKeys),
		MaxMcastGroups: limit(d.MaxMcastGrp), MaxMcastQPs: limit(d.MaxTotalMcastQPs),
		MaxQPsPerMcastGroup: limit(d.MaxMcastQPAttach),
		MaxRespRes:          limit(d.MaxResRdAtom), MaxRespResPerQP: limit(d.MaxQPRdAtom),
		MaxInitDepthPerQP: limit(d.MaxQPInitRdAtom),
		AckDelay:          ci.TimeExp(d.LocalCAAckDelay), Vectors: h.dev.Vectors(),
	}
	if a.MaxReadSGEs == 0 { // providers that do not report it have no other limit for READ
		a.MaxReadSGEs = a.MaxSGEs
	}
	a.Atomicity = ci.Atomicity(min(d.AtomicCap, int32(ci.AtomicGlobal)))
	for bit := uint64(1); bit != 0; bit <<= 1 {
		if d.PageSizeCap&bit != 0 && bit >= 4096 {
			a.PageSizes = append(a.PageSizes, bit)
		}
	}
	for n := uint8(1); n <= d.PhysPortCnt; n++ {
		p, err := h.port(n)
		if err != nil {
			return nil, reject(verb, err, ci.Success)
		}
		a.Ports = append(a.Ports, p)
	}
	return a, nil
}

// Modify changes nothing: a program may not change a port through libibverbs. Status: InvalidPort, InvalidParameter,
// Unsupported, InvalidCAHandle.
func (c *ca) Modify(port uint8, set ci.PortField, _ ci.PortModify) error {
	const verb = "CA.Modify"
	const known = ci.PortFieldShutdown<<1 - 1
	switch {
	case !c.refs.Alive():
		return fail(verb, ci.InvalidCAHandle, "")
	case port < 1 || port > c.hca.attr.PhysPortCnt:
		return fail(verb, ci.InvalidPort, "")
	case set&^known != 0:
		return fail(verb, ci.InvalidParameter, "unknown field")
	case set != 0:
		return fail(verb, ci.Unsupported, "libibverbs has no ibv_modify_port")
	}
	return nil
}

// Destroy closes the CA. Status: ResourceBusy, InvalidCAHandle. Context: drain.
func (c *ca) Destroy() error {
	if err := c.refs.BeginDestroy("CA.Destroy", ci.InvalidCAHandle); err != nil {
		return err
	}
	c.hca.mu.Lock()
	c.hca.open = nil
	c.hca.mu.Unlock()
	c.handlers.Close()
	return nil
}

// OnEvent registers a handler. Status: InvalidParameter, InvalidCAHandle.
func (c *ca) OnEvent(fn func(ci.Event), arg any) (ci.Object, error) {
	h, err := c.handlers.OnEvent(&c.refs, fn, arg)
	if err != nil {
		return nil, err
	}
	return h, nil
}

// AllocatePD allocates a PD. Status: InvalidParameter, InsufficientResources, InvalidCAHandle.
func (c *ca) AllocatePD(typ ci.PDType) (ci.PD, error) {
	const verb = "CA.AllocatePD"
	if typ > ci.PDDatagram || typ == ci.PDAlias {
		return nil, fail(verb, ci.InvalidParameter, "the type of the PD is out of range")
	}
	if !c.refs.Get() {
		return nil, fail(verb, ci.InvalidCAHandle, "")
	}
	p := &pd{ca: c, hca: c.hca}
	err := c.hca.pds.Take(verb)
	if err == nil {
		if p.pd, err = c.hca.dev.AllocPD(); err == nil {
			return p, nil
		}
		c.hca.pds.Give()
		err = reject(verb, err, ci.Success)
	}
	c.refs.Put()
	return nil, err
}
