package mlx4

import (
	"slices"

	"ciddk/ci"
	"ciddk/ci/driver"
	"ciddk/internal/mlx4/prm"
	"ciddk/internal/mlx4/queue"
)

type ca struct {
	ci.UnimplementedCA
	refs     driver.Refs
	hca      *HCA
	handlers driver.Handlers
}

// Limits of the driver. The sum of CQs, QPs, SRQs and regions is below bus.MaxRegions, since each has DMA memory of its
// own.
const (
	maxPDs    = 1 << 12
	maxAVs    = 1 << 16
	maxCQs    = 1 << 10
	maxQPs    = 1 << 10
	maxSRQs   = 1 << 8
	maxMRs    = 1 << 10
	maxMWs    = 1 << 12
	maxMcasts = 1 << 12

	maxInline     = 512 // bytes
	maxSendSGEs   = 32
	pageSize      = prm.ICMPageSize
	maxRegionSize = 1 << 32
)

// setLimits sets the numbers of objects: those of the adapter and of the driver, whichever is smaller.
func (h *HCA) setLimits() {
	c := h.caps
	for _, e := range []struct {
		p *driver.Pool
		n int
		c uint32
	}{{&h.pds, maxPDs, c.NumPDs}, {&h.cqs, maxCQs, c.NumCQs}, {&h.qps, maxQPs, c.NumQPs},
		{&h.srqs, maxSRQs, c.NumSRQs}, {&h.mrs, maxMRs, c.NumMPTs / 2}, {&h.mws, maxMWs, c.NumMPTs / 4},
		{&h.fmrs, maxFMRs, c.NumMPTs / 4},
		{&h.mcasts, maxMcasts, c.NumMCGs * c.MaxMcastQPs}, {&h.avs, maxAVs, maxAVs}} {
		e.p.Max = min(e.n, int(e.c))
	}
}

// setClaims sets the capabilities: what both the adapter and the driver have.
func (h *HCA) setClaims() {
	c := ci.CapAV | ci.CapAVPortCheck | ci.CapCurrentQPState | ci.CapPeek | ci.CapResizeCQ | ci.CapModeration |
		ci.CapLocalMAD | ci.CapSpecialQP | ci.CapPhysicalMR | ci.CapSharedMR | ci.CapModifyMR | ci.CapPortActiveEvent |
		ci.CapFMR | ci.CapUser | ci.CapEventHandlers | ci.CapShutdownPort
	if h.caps.NumPorts > 1 {
		c |= ci.CapChangePrimaryPort
	}
	for _, e := range []struct {
		flag uint
		c    ci.Caps
	}{{prm.FlagUC, ci.CapUC}, {prm.FlagUD, ci.CapUD}, {prm.FlagSRQ, ci.CapSRQ},
		{prm.FlagUDMulticast, ci.CapMulticast}, {prm.FlagMemoryWindows, ci.CapMW1},
		{prm.FlagAPM, ci.CapAPM}} {
		if h.caps.Has(e.flag) {
			c |= e.c
		}
	}
	if h.caps.HasBMME(prm.BMMEFastRegister) && h.caps.HasBMME(prm.BMMELocalInvalidate) {
		c |= ci.CapFastReg
	}
	if h.caps.HasBMME(prm.BMMEWindow2) && h.caps.HasBMME(prm.BMMELocalInvalidate) {
		c |= ci.CapMW2
	}
	if h.caps.HasBMME(prm.BMMERemoteInvalidate) {
		c |= ci.CapSendInvalidate
	}
	if h.caps.Has(prm.FlagUD) && !slices.ContainsFunc(h.ports, (*port).isEthernet) {
		c |= h.offloads()
	}
	h.claims = c
}

// offloads returns the capabilities of the adapter for datagrams of IP over InfiniBand. Public sources do not say what
// UD QPs of Ethernet ports have.
func (h *HCA) offloads() (c ci.Caps) {
	if h.caps.Has(prm.FlagIPoIBChecksum) {
		c |= ci.CapIPChecksum
	}
	if h.caps.Has(prm.FlagBigLSO) && h.caps.MaxLSO > 0 {
		c |= ci.CapLSO
	}
	return c
}

// atomicity returns the scope of remote atomics.
func (h *HCA) atomicity() ci.Atomicity {
	if h.caps.Has(prm.FlagAtomic) {
		return ci.AtomicLocal
	}
	return ci.AtomicNone
}

// maxWRs returns the most requests of a queue.
func (h *HCA) maxWRs() int {
	return min(int(h.caps.MaxQPSize), 1<<15) - queue.SpareSlots(queue.MinSendShift)
}

// maxSGEs returns the most entries of a send and of a receive.
func (h *HCA) maxSGEs() int { return min(int(h.caps.MaxSendSGE), int(h.caps.MaxRecvSGE), maxSendSGEs) }

// Query returns the attributes. The caller owns them. Status: InvalidCAHandle.
func (c *ca) Query() (*ci.CAAttr, error) {
	const verb = "CA.Query"
	if !c.refs.Alive() {
		return nil, fail(verb, ci.InvalidCAHandle, "")
	}
	h := c.hca
	firmware := h.dev.Firmware()
	reads := int(h.caps.MaxRespDepth)
	a := &ci.CAAttr{GUID: h.info.GUID, VendorID: h.info.VendorID, DeviceID: h.info.DeviceID, Revision: h.info.Revision,
		Firmware: uint64(firmware.Major)<<32 | uint64(firmware.Minor)<<16 | uint64(firmware.SubMinor), Caps: h.claims,
		Atomicity: h.atomicity(), MaxPDs: h.pds.Max, MaxAVs: h.avs.Max, MaxQPs: h.qps.Max, MaxWRs: h.maxWRs(),
		MaxSGEs: h.maxSGEs(), MaxReadSGEs: h.maxSGEs(), MaxInline: maxInline, MaxCQs: h.cqs.Max,
		MaxCQEs: h.maxCQEs(), MaxMRs: h.mrs.Max, MaxMRSize: maxRegionSize,
		MaxRespResPerQP: reads, MaxInitDepthPerQP: min(int(h.caps.MaxInitDepth), 128),
		MaxRespRes: reads * h.qps.Max, PageSizes: []uint64{pageSize}, AckDelay: ci.TimeExp(h.caps.AckDelay),
		MaxFMRs: h.fmrs.Max, MaxMapsPerFMR: maxMapsPerFMR, Vectors: h.dev.NumCompletionEQs()}
	if h.claims.Has(ci.CapSRQ) {
		a.MaxSRQs, a.MaxSRQWRs, a.MaxSRQSGEs = h.srqs.Max, min(int(h.caps.MaxSRQSize), 1<<14)-1, maxSharedSGEs
	}
	if h.claims&(ci.CapMW1|ci.CapMW2) != 0 {
		a.MaxMWs = h.mws.Max
	}
	if h.claims.Has(ci.CapFastReg) {
		a.MaxFastRegPages = maxFastRegPages
	}
	if h.claims.Has(ci.CapMulticast) {
		a.MaxMcastGroups, a.MaxMcastQPs = int(h.caps.NumMCGs), h.mcasts.Max
		a.MaxQPsPerMcastGroup = h.maxGroupQPs()
	}
	for _, p := range h.ports {
		pa, err := p.query(h.ctx)
		if err != nil {
			return nil, firmwareError(verb, err)
		}
		a.MaxPartitions = max(a.MaxPartitions, len(pa.PKeys))
		a.Ports = append(a.Ports, pa)
	}
	return a, nil
}

// Modify sets and clears capability bits of a port, and takes a port down. The link of such a port stays down until the
// adapter is opened again. The other fields need a claim. Status: InvalidPort, InvalidParameter, Unsupported,
// InvalidCAHandle.
func (c *ca) Modify(num uint8, set ci.PortField, a ci.PortModify) error {
	const verb = "CA.Modify"
	const known = ci.PortFieldShutdown<<1 - 1
	p := c.hca.port(num)
	switch {
	case !c.refs.Alive():
		return fail(verb, ci.InvalidCAHandle, "")
	case p == nil:
		return fail(verb, ci.InvalidPort, "the adapter has no such port")
	case set&^known != 0:
		return fail(verb, ci.InvalidParameter, "unknown field")
	case set&^(ci.PortFieldCapability|ci.PortFieldShutdown) != 0:
		return fail(verb, ci.Unsupported, "only capability bits can be changed, and the port be shut down")
	}
	if set&ci.PortFieldShutdown != 0 {
		if err := c.hca.dev.ClosePort(c.hca.ctx, num); err != nil {
			return firmwareError(verb, err)
		}
		p.isShut.Store(true)
	}
	if set&ci.PortFieldCapability == 0 {
		return nil
	}
	changed, err := p.setCapabilities(c.hca.ctx, a.CapMask, a.Capability)
	if err != nil {
		return firmwareError(verb, err)
	}
	if changed {
		c.event(ci.Event{Type: ci.EventPortTrap, Port: num})
	}
	return nil
}

// event delivers an event to the consumers.
func (c *ca) event(e ci.Event) { c.handlers.Event(e) }

// notifyCA delivers an event to the consumers, if there are some.
func (h *HCA) notifyCA(e ci.Event) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if h.open != nil {
		h.open.event(e)
	}
}

// notifyRemoval delivers an event to the consumers, and waits until it has been delivered.
func (h *HCA) notifyRemoval(e ci.Event) {
	if c := h.opened(); c != nil {
		c.event(e)
		c.handlers.Flush()
	}
}

// flushEvents waits until the consumers have received the events so far.
func (h *HCA) flushEvents() {
	if c := h.opened(); c != nil {
		c.handlers.Flush()
	}
}

// opened returns the open CA, or nil.
func (h *HCA) opened() *ca {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.open
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

// AllocatePD allocates a PD. Status: InsufficientResources, InvalidParameter, InvalidCAHandle.
func (c *ca) AllocatePD(typ ci.PDType) (ci.PD, error) {
	p, err := c.hca.newPD("CA.AllocatePD", typ, &c.refs)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// newPD allocates a PD below a CA or a process.
func (h *HCA) newPD(verb string, typ ci.PDType, parent *driver.Refs) (_ *pd, err error) {
	if typ > ci.PDDatagram || typ == ci.PDAlias {
		return nil, fail(verb, ci.InvalidParameter, "the type of the PD is out of range")
	}
	if !parent.Get() {
		return nil, fail(verb, ci.InvalidCAHandle, "")
	}
	var u undo
	defer u.run(&err)
	u.add(parent.Put)
	if err := h.pds.Take(verb); err != nil {
		return nil, err
	}
	u.add(h.pds.Give)
	num, e := h.dev.AllocPD()
	if e != nil {
		return nil, firmwareError(verb, e)
	}
	return &pd{parent: parent, hca: h, num: num}, nil
}

// MapDMA makes memory reachable for the adapter. Status: InvalidParameter, InsufficientResources, InvalidCAHandle.
func (c *ca) MapDMA(m ci.Memory) (_ ci.DMA, err error) {
	const verb = "CA.MapDMA"
	if !c.refs.Alive() {
		return nil, fail(verb, ci.InvalidCAHandle, "")
	}
	if ci.IsNil(m) || m.Len() == 0 {
		return nil, fail(verb, ci.InvalidParameter, "the memory is nil or empty")
	}
	if !c.refs.Get() {
		return nil, fail(verb, ci.InvalidCAHandle, "")
	}
	s, e := c.hca.mapMemory(verb, m, 0, m.Len())
	if e != nil {
		c.refs.Put()
		return nil, e
	}
	d := &dma{ca: c, s: s}
	c.hca.dmas.add(d)
	return d, nil
}

// dma is memory of MapDMA.
type dma struct {
	ci.UnimplementedDMA
	refs driver.Refs
	ca   *ca
	s    *storage
}

// Ranges returns the addresses.
func (d *dma) Ranges() []ci.DMARange { return d.s.ranges() }

// Destroy ends the mapping. Status: ResourceBusy (registered), InvalidHandle.
func (d *dma) Destroy() error {
	const verb = "DMA.Destroy"
	if err := d.refs.BeginDestroy(verb, ci.InvalidHandle); err != nil {
		return err
	}
	d.ca.hca.dmas.remove(d)
	err := d.s.close()
	d.ca.refs.Put()
	if err != nil {
		return firmwareError(verb, err)
	}
	return nil
}

// OnEvent adds a handler for the events of the CA and its ports. Status: InvalidParameter, InvalidCAHandle.
func (c *ca) OnEvent(fn func(ci.Event), arg any) (ci.Object, error) {
	h, err := c.handlers.OnEvent(&c.refs, fn, arg)
	if err != nil {
		return nil, err
	}
	c.hca.numHandlers.Add(1)
	return &handler{h, c.hca}, nil
}

// A handler is counted until it is destroyed.
type handler struct {
	*driver.Handler
	hca *HCA
}

func (h *handler) Destroy() error {
	err := h.Handler.Destroy()
	if err == nil {
		h.hca.numHandlers.Add(-1)
	}
	return err
}
