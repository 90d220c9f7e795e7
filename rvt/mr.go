package rvt

import (
	"math"
	"sync"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/ci/driver"
)

// MR is a memory region: virtual, physical, shared or for fast registration. These kinds differ in how the storage is
// found, and in nothing else.
type MR struct {
	ci.UnimplementedMR
	refs   driver.Refs // what depends on it: shared regions and bound windows
	dev    *device
	slot   *slot
	region atomic.Pointer[ci.Region]
	modify sync.Mutex // serialises Modify and ModifyPMR

	maxPages int     // fast registration: the most pages; else 0
	anyPD    bool    // local accesses may come from all PDs
	process  *UserCA // that of its PD, also after the PD has changed

	mu sync.Mutex // before that of refs; Destroy holds it, too
	// With mu.
	pd     *PD
	face   ci.PD // pd as the consumer knows it
	access ci.Access
	bound  int // windows, counted in refs, too
	source *MR // shared: whose storage it is
}

const (
	remoteRights = ci.RemoteRead | ci.RemoteWrite | ci.RemoteAtomic | ci.FlushRights
	allAccess    = remoteRights | ci.LocalWrite | ci.BindWindow | ci.ZeroBased | ci.NotCachable
)

// checkAccess validates a set of rights for a region (IBTA volume 1, 10.6.3.1).
func (d *device) checkAccess(verb string, a ci.Access) error {
	switch {
	case a&^allAccess != 0:
		return failf(verb, ci.InvalidParameter, "unknown access bits")
	case a&(ci.RemoteWrite|ci.RemoteAtomic) != 0 && a&ci.LocalWrite == 0:
		return failf(verb, ci.InvalidPermission, "remote write and atomic need LocalWrite")
	case a&ci.ZeroBased != 0 && !d.attr.Caps.Has(ci.CapZeroBased):
		return failf(verb, ci.Unsupported, "ZeroBased without CapZeroBased")
	case a&ci.FlushRights != 0 && !d.attr.Caps.Has(ci.CapFlush),
		a&ci.FlushPersistent != 0 && !d.attr.Caps.Has(ci.CapFlushPersistent):
		return failf(verb, ci.Unsupported, "a right to flush without CapFlush or CapFlushPersistent")
	}
	return nil
}

// place is the address range and the storage of a new region. It has references on dmas.
type place struct {
	va, length uint64
	bytes      *storage
	dmas       []*DMA
}

// placeFinder returns the new place of a region whose rights will be access.
type placeFinder func(access ci.Access) (*place, error)

// drop releases a place that no region uses.
func (p *place) drop() {
	for _, d := range p.dmas {
		d.refs.Put()
		d.leave()
	}
}

// checkRange validates the address range of a region.
func (d *device) checkRange(verb string, base, length uint64) error {
	switch {
	case length == 0:
		return failf(verb, ci.InvalidParameter, "the region is empty")
	case length > d.attr.MaxMRSize:
		return failf(verb, ci.InvalidParameter, "longer than CAAttr.MaxMRSize")
	case base > math.MaxUint64-length:
		return failf(verb, ci.InvalidParameter, "the addresses wrap around")
	}
	return nil
}

// place returns the place of a virtual region.
func (d *device) place(verb string, c *ci.MRCreate, access ci.Access) (*place, error) {
	if ci.IsNil(c.Memory) {
		return nil, failf(verb, ci.InvalidParameter, "Memory is nil")
	}
	size := c.Memory.Len()
	if size > math.MaxInt64 || c.Offset > size || c.Length > size-c.Offset {
		return nil, failf(verb, ci.InvalidParameter, "Offset and Length are not inside the Memory")
	}
	n := c.Length
	if n == 0 {
		n = size - c.Offset
	}
	own := c.Memory.Addr() + c.Offset
	va := own
	if c.IOVA != 0 {
		if va = c.IOVA; (va^own)&(d.pageSize()-1) != 0 {
			return nil, failf(verb, ci.InvalidParameter, "IOVA has another offset in its page than the memory")
		}
		if access&ci.ZeroBased != 0 {
			return nil, failf(verb, ci.InvalidParameter, "IOVA and ZeroBased exclude each other")
		}
	}
	if n > 0 { // a region of no bytes is valid, and no access to it is (D-107)
		if err := d.checkRange(verb, va, n); err != nil {
			return nil, err
		}
	}
	return &place{va: va, length: n, bytes: newStorage(extents(c.Memory, c.Offset, n))}, nil
}

// pageSize returns the smallest page size of the HCA.
func (d *device) pageSize() uint64 { return d.attr.PageSizes[0] }

// extents returns the storage of n bytes of m at off, which must exist: views where m has them, and copies elsewhere.
func extents(m ci.Memory, off, n uint64) []segment {
	var segs []segment
	for n > 0 {
		s := segment{n: n, m: m, at: off}
		if b := m.Slice(off, n); len(b) > 0 {
			s.n = min(n, uint64(len(b)))
			s.b = b[:s.n:s.n]
		}
		segs = append(segs, s)
		off += s.n
		n -= s.n
	}
	return segs
}

// grant returns what a region at p grants. The references of p become those of the grant.
func (p *place) grant(key ci.Key, pd *PD, access ci.Access) *grant {
	g := &grant{key: key, access: access, pd: pd, base: p.va, length: p.length, bytes: p.bytes, va: p.va, dmas: p.dmas}
	if access&ci.ZeroBased != 0 {
		g.base = 0
	}
	if len(g.dmas) > 0 {
		g.settled(func() {
			for _, d := range g.dmas {
				d.leave()
			}
		})
	}
	return g
}

// region returns a grant as consumers see it.
func (g *grant) region() *ci.Region {
	r := &ci.Region{Addr: g.base, Length: g.length, LKey: g.key}
	if g.access&remoteRights != 0 {
		r.RKey = g.key
	}
	return r
}

// newMR creates a region at p. It takes over p, also when it fails. p is nil for a region without storage.
func (d *PD) newMR(verb string, p *place, access ci.Access, source *MR, maxPages int) (ci.MR, error) {
	m := &MR{maxPages: maxPages, access: access, source: source}
	if err := d.addMR(verb, m, p, d.dev.keys.reserve); err != nil {
		return nil, err
	}
	return m, nil
}

// addMR completes a new region with a key that reserve takes. It takes over p, also when it fails.
func (d *PD) addMR(verb string, m *MR, p *place, reserve func(keyOwner) (*slot, ci.Key, bool)) error {
	dev := d.dev
	if p != nil {
		if err := p.bytes.checkPersistent(verb, m.access); err != nil {
			p.drop()
			return err
		}
	}
	if err := d.child(verb, kindMR, dev.attr.MaxMRs); err != nil {
		if p != nil {
			p.drop()
		}
		return err
	}
	m.dev, m.process = dev, d.process
	m.pd, m.face = d, d
	s, key, ok := reserve(m)
	if !ok {
		d.unchild(kindMR)
		if p != nil {
			p.drop()
		}
		return failf(verb, ci.InsufficientResources, "no key is free")
	}
	if p != nil {
		g := p.grant(key, d, m.access)
		if m.anyPD {
			g.pd = nil
		}
		m.region.Store(g.region())
		s.now.Store(g)
	}
	return nil
}

// RegisterMR creates a region over storage.
func (d *PD) RegisterMR(c ci.MRCreate) (ci.MR, error) {
	const verb = "PD.RegisterMR"
	dev := d.dev
	if !d.refs.Alive() {
		return nil, fail(verb, ci.InvalidPDHandle)
	}
	if err := dev.checkAccess(verb, c.Access); err != nil {
		return nil, err
	}
	p, err := dev.place(verb, &c, c.Access)
	if err != nil {
		return nil, err
	}
	return d.newMR(verb, p, c.Access, nil, 0)
}

// setSlot implements keyOwner.
func (m *MR) setSlot(s *slot, first ci.Key) {
	m.slot = s
	m.region.Store(&ci.Region{LKey: first, RKey: first})
}

// Region returns the present address range and keys.
func (m *MR) Region() ci.Region { return *m.region.Load() }

// Query returns the attributes of the region.
func (m *MR) Query() (ci.MRAttr, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.refs.Alive() {
		return ci.MRAttr{}, fail("MR.Query", ci.InvalidMRHandle)
	}
	a := ci.MRAttr{Region: m.Region(), PD: m.face, Access: m.access}
	if g := m.slot.now.Load(); g != nil {
		a.LocalLo, a.LocalHi = g.base, g.base+g.length
		if g.access&remoteRights != 0 {
			a.RemoteLo, a.RemoteHi = a.LocalLo, a.LocalHi
		}
	}
	return a, nil
}

// Destroy deregisters the region. The keys are invalid at once, and no access to the storage is in progress when it
// returns.
func (m *MR) Destroy() error {
	m.process.settle()
	m.mu.Lock()
	err := m.refs.BeginDestroy("MR.Destroy", ci.InvalidMRHandle)
	m.mu.Unlock()
	if err != nil {
		return err
	}
	m.dev.keys.release(m.slot)
	m.slot.wait()
	if m.source != nil {
		m.source.refs.Put()
	}
	m.pd.unchild(kindMR)
	return nil
}

// Modify replaces the region: its keys always change. It creates the new one before it releases the old one, so that a
// failure changes nothing.
func (m *MR) Modify(set ci.MRField, pd ci.PD, c ci.MRCreate) error {
	const verb = "MR.Modify"
	if !m.dev.attr.Caps.Has(ci.CapModifyMR) {
		return m.UnimplementedMR.Modify(set, pd, c)
	}
	return m.change(verb, set, pd, c.Access, func(a ci.Access) (*place, error) { return m.dev.place(verb, &c, a) })
}

func (m *MR) change(verb string, set ci.MRField, pd ci.PD, access ci.Access, find placeFinder) error {
	m.process.settle()
	m.modify.Lock()
	defer m.modify.Unlock()
	switch {
	case !m.refs.Alive():
		return fail(verb, ci.InvalidMRHandle)
	case set == 0 || set&^(ci.MRFieldMemory|ci.MRFieldPD|ci.MRFieldAccess) != 0:
		return failf(verb, ci.InvalidParameter, "no field, or an unknown one")
	case m.maxPages != 0:
		return failf(verb, ci.InvalidParameter, "a fast registration region is changed by OpFastReg")
	case m.anyPD:
		return failf(verb, ci.InvalidParameter, "a region of all PDs cannot be changed")
	}
	m.mu.Lock()
	to, face := m.pd, m.face
	if set&ci.MRFieldAccess == 0 {
		access = m.access
	}
	busy := m.bound > 0
	m.mu.Unlock()
	if busy {
		return failf(verb, ci.ResourceBusy, "a window is bound")
	}
	if set&ci.MRFieldAccess != 0 {
		if err := m.dev.checkAccess(verb, access); err != nil {
			return err
		}
	}
	if set&ci.MRFieldPD != 0 {
		d, ok := ci.As[*PD](pd)
		if !ok || d.dev != m.dev || d.process != m.process || !d.refs.Get() {
			return handle(verb, ci.InvalidPDHandle, "pd", pd)
		}
		to, face = d, pd
	}
	err := m.replace(verb, set, to, face, access, find)
	if err != nil && set&ci.MRFieldPD != 0 {
		to.refs.Put()
	}
	return err
}

// replace executes a change that has been validated. It takes over the reference on pd if it succeeds.
func (m *MR) replace(verb string, set ci.MRField, pd *PD, face ci.PD, access ci.Access, find placeFinder) error {
	var p *place
	if set&ci.MRFieldMemory != 0 {
		var err error
		if p, err = find(access); err != nil {
			return err
		}
	}
	m.mu.Lock()
	g := m.slot.now.Load()
	switch {
	case !m.refs.Alive():
		m.mu.Unlock()
		if p != nil {
			p.drop()
		}
		return fail(verb, ci.InvalidMRHandle)
	case m.bound > 0:
		m.mu.Unlock()
		if p != nil {
			p.drop()
		}
		return failf(verb, ci.ResourceBusy, "a window is bound")
	}
	bytes := g.bytes
	if p != nil {
		bytes = p.bytes
	}
	if err := bytes.checkPersistent(verb, access); err != nil {
		m.mu.Unlock()
		if p != nil {
			p.drop()
		}
		return err
	}
	var source *MR
	if p == nil {
		p = &place{va: g.va, length: g.length, bytes: g.bytes, dmas: g.dmas}
		for _, d := range p.dmas { // cannot fail: the old grant has one
			d.refs.Get()
			d.enter()
		}
	} else {
		source, m.source = m.source, nil
	}
	n := p.grant(m.slot.fresh(), pd, access)
	m.region.Store(n.region())
	m.slot.swap(n)
	old := m.pd
	m.pd, m.face, m.access = pd, face, access
	m.mu.Unlock()

	m.slot.wait()
	if source != nil {
		source.refs.Put()
	}
	if set&ci.MRFieldPD != 0 {
		old.refs.Put()
	}
	return nil
}
