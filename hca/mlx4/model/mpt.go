package model

import (
	"ciddk/ci"
	"ciddk/internal/mlx4/prm"
	"ciddk/rvt"
)

// mpt is an entry of the protection table that the hardware owns.
type mpt struct {
	object ci.Object // ci.MR or ci.MW; nil: an FMR
	pd     uint32
	key    ci.Key
	local  *localKey // of a region that has memory
}

// destroyMPT destroys the object of an entry.
func (m *Model) destroyMPT(index uint32, e *mpt) error {
	if e.object == nil {
		m.fmrs.remove(index)
		return nil
	}
	return e.object.Destroy()
}

// close releases what the region remembers.
func (e *mpt) close() {
	if e.local != nil {
		if t, ok := e.local.region.pages.(*translation); ok {
			t.close()
		}
	}
}

// mptTable has the entries that the hardware owns, and those that it has given back and that software may edit in
// place until SYNC_TPT.
type mptTable struct {
	hardware map[uint32]*mpt
	software map[uint32]bool
}

// maxSoftware bounds the entries that software may edit, and with them the memory and the time of SYNC_TPT.
const maxSoftware = 1 << 16

// give records that software may edit an entry. Of too many, any one is forgotten: SYNC_TPT then leaves it alone.
func (t *mptTable) give(index uint32) {
	for k := range t.software {
		if len(t.software) < maxSoftware {
			break
		}
		delete(t.software, k)
	}
	t.software[index] = true
}

func (t *mptTable) reset() { t.hardware, t.software = map[uint32]*mpt{}, map[uint32]bool{} }

// mptAddress returns the address of an entry in the ICM.
func (m *Model) mptAddress(index uint32) uint64 {
	return m.layout.dmpt + uint64(index)*uint64(prm.MPTStride)
}

// mptIndex validates the index of an entry. The lowest ones are reserved.
func (c *command) mptIndex() (uint32, bool) {
	return c.mod, c.mod >= 1<<logReservedMRWs && c.mod < 1<<c.layout.logMPTs
}

func (c *command) sw2hwMPT() prm.Status {
	index, ok := c.mptIndex()
	if !ok {
		return prm.BadIndex
	}
	b, ok := c.inbox(prm.MPTOwner.Layout.Size)
	if !ok {
		return prm.BadParam
	}
	return c.takeMPT(index, b)
}

// takeMPT makes the object of an entry, and stores the entry in the ICM.
func (m *Model) takeMPT(index uint32, b []byte) prm.Status {
	if m.mpts.hardware[index] != nil {
		return prm.BadResState
	}
	key := ci.Key(prm.KeyOf(uint32(prm.MPTIndex.Get(b))))
	if uint32(prm.MPTIndex.Get(b))&(1<<m.layout.logMPTs-1) != index {
		return prm.BadParam
	}
	if isFMR(b) && m.fmrs.isFull() {
		return prm.ExceedLim
	}
	pdn := uint32(prm.MPTPD.Get(b))
	pd, status := m.takePD(pdn)
	if status != prm.OK {
		return status
	}
	e := &mpt{pd: pdn, key: key}
	owner := prm.MPTOwnerHW
	var err error
	switch {
	case !prm.MPTRegion.Has(b):
		typ := ci.MWType1
		if prm.MPTBoundToQP.Has(b) {
			typ = ci.MWType2
		}
		e.object, err = pd.CreateNamedMW(key, typ)
	case isFMR(b):
	case prm.MPTOwner.Get(b) == prm.MPTOwnerFree:
		owner = prm.MPTOwnerFree
		pages := min(prm.MPTMTTCount.Get(b), maxFastRegPages)
		e.object, err = pd.AllocFastRegNamed(key, int(pages))
	default:
		r, ok := m.newRegion(b)
		if !ok {
			m.dropPD(pdn)
			return prm.BadParam
		}
		e.local = &localKey{r, pdn & pdMask, mptAccess(b)}
		e.object, err = pd.RegisterNamed(key, ci.MRCreate{Memory: r, Access: mptAccess(b)})
	}
	if err != nil {
		m.dropPD(pdn)
		return statusOf(err)
	}
	entry := append([]byte(nil), b...)
	prm.MPTOwner.Put(entry, owner)
	if !m.writeICM(m.mptAddress(index), entry) {
		if e.object != nil {
			_ = e.object.Destroy() // nothing uses it yet
		}
		m.dropPD(pdn)
		return prm.ICMError
	}
	m.mpts.hardware[index] = e
	if e.object == nil {
		m.fmrs.add(&fmr{pd: pd, pdn: pdn & pdMask, index: index}, 1<<m.layout.logMPTs)
	}
	m.objects.Lock()
	defer m.objects.Unlock()
	if e.local != nil {
		m.keys[key] = e.local
	}
	delete(m.mpts.software, index)
	return prm.OK
}

// maxFastRegPages is the most pages of a fast registration.
const maxFastRegPages = 512

// newRegion returns the memory of an entry.
func (m *Model) newRegion(b []byte) (*region, bool) {
	r := &region{m: m, start: prm.MPTStart.Get(b), size: prm.MPTLength.Get(b)}
	if prm.MPTPhysical.Has(b) {
		r.pages = physical(r.start)
		if r.start >= 1<<logMaxMRSize {
			return nil, false
		}
		r.size = min(r.size, 1<<logMaxMRSize-r.start)
		return r, true
	}
	if r.size > 1<<logMaxMRSize {
		return nil, false
	}
	log := prm.MPTLogPage.Get(b)
	if log > 63 {
		return nil, false
	}
	r.first = r.start & (1<<log - 1)
	buf, ok := m.newBuffer(prm.MPTMTTHigh.Get(b)<<32|prm.MPTMTTLow.Get(b), uint8(log), r.first+r.size)
	r.pages = &translation{buffer: buf}
	return r, ok
}

// mptAccess returns the rights of an entry.
func mptAccess(b []byte) (a ci.Access) {
	for _, e := range []struct {
		f *prm.Field
		a ci.Access
	}{{&prm.MPTLocalWrite, ci.LocalWrite}, {&prm.MPTRemoteRead, ci.RemoteRead}, {&prm.MPTRemoteWrite, ci.RemoteWrite},
		{&prm.MPTAtomic, ci.RemoteAtomic}, {&prm.MPTBind, ci.BindWindow}} {
		if e.f.Has(b) {
			a |= e.a
		}
	}
	return a
}

func (c *command) hw2swMPT() prm.Status {
	e := c.mpts.hardware[c.mod]
	if e == nil {
		return prm.BadIndex
	}
	b := make([]byte, prm.MPTOwner.Layout.Size)
	at := c.mptAddress(c.mod)
	if e.object == nil { // software may have taken it back without a command
		if !c.loadICM(at, b) {
			return prm.ICMError
		}
		if prm.MPTOwner.Get(b) != prm.MPTOwnerHW {
			return prm.BadResState
		}
	}
	if err := c.destroyMPT(c.mod, e); err != nil {
		if ci.StatusOf(err) == ci.ResourceBusy {
			return prm.RegBound
		}
		return statusOf(err)
	}
	c.dropPD(e.pd)
	c.objects.Lock()
	delete(c.keys, e.key)
	c.objects.Unlock()
	e.close()
	delete(c.mpts.hardware, c.mod)
	c.mpts.give(c.mod)
	if !c.readICM(at, b) {
		return prm.ICMError
	}
	prm.MPTOwner.Put(b, prm.MPTOwnerSW)
	if !c.writeICM(at, b[:1]) {
		return prm.ICMError
	}
	if c.opMod == 0 {
		return c.outbox(b)
	}
	return prm.OK
}

func (c *command) queryMPT() prm.Status {
	b := make([]byte, prm.MPTOwner.Layout.Size)
	if c.mpts.hardware[c.mod] == nil {
		return prm.BadIndex
	}
	if !c.readICM(c.mptAddress(c.mod), b) {
		return prm.ICMError
	}
	return c.outbox(b)
}

// syncTPT takes over the entries that software has edited in the ICM and marked as the hardware's.
func (c *command) syncTPT() prm.Status {
	c.translations.invalidate()
	c.fmrs.flush()
	for index := range c.mpts.software {
		b := make([]byte, prm.MPTOwner.Layout.Size)
		if !c.readICM(c.mptAddress(index), b) || prm.MPTOwner.Get(b) != prm.MPTOwnerHW {
			continue
		}
		if status := c.takeMPT(index, b); status != prm.OK {
			return status
		}
	}
	return prm.OK
}

func (c *command) writeMTT() prm.Status {
	const header = 16
	if c.mod == 0 || c.mod > (prm.MailboxSize-header)/mttEntry {
		return prm.BadParam
	}
	b, ok := c.inbox(header + int(c.mod)*mttEntry)
	if !ok {
		return prm.BadParam
	}
	first := bigEndian.Uint64(b)
	if first > 1<<40 || !c.writeICM(c.layout.mtt+first*mttEntry, b[header:]) {
		return prm.ICMError
	}
	c.translations.invalidate()
	return prm.OK
}

// pdRef is a protection domain that the driver has named, and the number of objects in it.
type pdRef struct {
	*rvt.PD
	count int
}

// takePD returns a domain and takes a reference on it. The driver does not announce domains.
func (m *Model) takePD(num uint32) (*rvt.PD, prm.Status) {
	num &= pdMask
	p := m.pds[num]
	if p == nil {
		d, err := m.ca.AllocatePD(ci.PDNormal)
		if err != nil {
			return nil, statusOf(err)
		}
		engine, _ := ci.As[*rvt.PD](d)
		p = &pdRef{PD: engine}
		m.pds[num] = p
	}
	p.count++
	return p.PD, prm.OK
}

// dropPD releases a reference.
func (m *Model) dropPD(num uint32) {
	num &= pdMask
	p := m.pds[num]
	if p.count--; p.count == 0 {
		_ = p.Destroy() // it has no objects left
		delete(m.pds, num)
	}
}

// pdMask are the bits of a domain's number. Higher ones are those of virtual functions.
const pdMask = 1<<17 - 1

// statusOf returns the status for an error of the transport.
func statusOf(err error) prm.Status {
	switch ci.StatusOf(err) {
	case ci.InsufficientResources, ci.InsufficientMemory, ci.InvalidMaxWRs, ci.InvalidMaxSGE, ci.InvalidCQSize:
		return prm.ExceedLim
	case ci.ResourceBusy:
		return prm.ResourceBusy
	case ci.InvalidQPState:
		return prm.BadQPState
	case ci.Unsupported:
		return prm.BadOp
	}
	return prm.BadParam
}
