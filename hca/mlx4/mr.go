package mlx4

import (
	"math"
	"sync"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/ci/driver"
	"ciddk/internal/mlx4/fw"
	"ciddk/internal/mlx4/prm"
)

type mr struct {
	ci.UnimplementedMR
	refs  driver.Refs
	hca   *HCA
	owner *pd // that created it, of whose process it is
	now   atomic.Pointer[grant]

	modify sync.Mutex // serialises Modify, ModifyPMR and Destroy

	maxPages int // fast registration; else 0
}

// A grant is what a region has in the table of the adapter.
type grant struct {
	pd     *pd
	face   ci.PD
	access ci.Access
	region ci.Region
	index  uint32 // of the MPT, with its upper bits
	mtt    *fw.MTT
	pages  []uint64
	s      *storage // nil: no storage, or that of dmas
	dmas   []*dma
	source *mr // of RegisterSMR: the region that must not be destroyed before
}

const (
	remoteRights = ci.RemoteRead | ci.RemoteWrite | ci.RemoteAtomic
	allAccess    = remoteRights | ci.LocalWrite | ci.BindWindow | ci.ZeroBased | ci.NotCachable
)

// checkAccess validates a set of rights for a region (IBTA volume 1, 10.6.3.1).
func checkAccess(verb string, a ci.Access) error {
	switch {
	case a&ci.FlushRights != 0:
		return fail(verb, ci.Unsupported, "CapFlush is not claimed")
	case a&^allAccess != 0:
		return fail(verb, ci.InvalidParameter, "unknown access right")
	case a&(ci.RemoteWrite|ci.RemoteAtomic) != 0 && a&ci.LocalWrite == 0:
		return fail(verb, ci.InvalidPermission, "RemoteWrite and RemoteAtomic need LocalWrite")
	case a&ci.ZeroBased != 0:
		return fail(verb, ci.Unsupported, "zero-based regions are not claimed")
	}
	return nil
}

// checkRange validates the address range of a region.
func checkRange(verb string, base, length uint64) error {
	switch {
	case length == 0:
		return fail(verb, ci.InvalidParameter, "the region is empty")
	case length > maxRegionSize:
		return fail(verb, ci.InvalidParameter, "the region is longer than MaxMRSize")
	case base > math.MaxUint64-length:
		return fail(verb, ci.InvalidParameter, "the region exceeds the end of the address space")
	}
	return nil
}

// RegisterMR registers memory that the adapter can reach. Status: InvalidParameter (range, right, IOVA, memory that is
// not mappable), InvalidPermission, Unsupported, InvalidPDHandle, InsufficientResources.
func (p *pd) RegisterMR(c ci.MRCreate) (ci.MR, error) {
	const verb = "PD.RegisterMR"
	if !p.refs.Alive() {
		return nil, fail(verb, ci.InvalidPDHandle, "")
	}
	if err := checkAccess(verb, c.Access); err != nil {
		return nil, err
	}
	g, err := p.hca.place(verb, &c)
	if err != nil {
		return nil, err
	}
	return p.newMR(verb, g, c.Access)
}

// place returns a grant with the storage of virtual memory.
func (h *HCA) place(verb string, c *ci.MRCreate) (*grant, error) {
	if ci.IsNil(c.Memory) || c.Memory.Len() > math.MaxInt64 || c.Offset > c.Memory.Len() ||
		c.Length > c.Memory.Len()-c.Offset {
		return nil, fail(verb, ci.InvalidParameter, "the memory is nil, or the range is outside of it")
	}
	n := c.Length
	if n == 0 {
		n = c.Memory.Len() - c.Offset
	}
	first := c.Memory.Addr() + c.Offset
	va := first
	if c.IOVA != 0 {
		va = c.IOVA
	}
	if (va^first)&(pageSize-1) != 0 {
		return nil, fail(verb, ci.InvalidParameter, "IOVA and memory have different offsets in a page")
	}
	if err := checkRange(verb, va, n); err != nil {
		return nil, err
	}
	s, err := h.mapMemory(verb, c.Memory, c.Offset, n)
	if err != nil {
		return nil, err
	}
	g := &grant{s: s, region: ci.Region{Addr: va, Length: n}}
	var offset uint64
	g.pages, offset = pagesOf(s.ranges())
	if offset != va%pageSize {
		_ = s.close() // nothing uses it
		return nil, fail(verb, ci.InvalidParameter, "the address of the memory is not the one of its bytes")
	}
	return g, nil
}

// newMR creates a region with the storage of a grant, which it takes over, also when it fails.
func (p *pd) newMR(verb string, g *grant, access ci.Access) (_ ci.MR, err error) {
	m := &mr{hca: p.hca, owner: p}
	var u undo
	defer u.run(&err)
	u.add(g.drop)
	if !p.refs.Get() {
		return nil, fail(verb, ci.InvalidPDHandle, "")
	}
	u.add(p.refs.Put)
	if err := p.hca.mrs.Take(verb); err != nil {
		return nil, err
	}
	u.add(p.hca.mrs.Give)
	g.pd, g.face, g.access = p, p, access
	if err := p.hca.enter(verb, g); err != nil {
		return nil, err
	}
	m.now.Store(g)
	return m, nil
}

// drop releases the storage of a grant that is not in the table.
func (g *grant) drop() {
	if g.s != nil {
		_ = g.s.close() // the memory stays the consumer's in any case
		g.s = nil
	}
	for _, d := range g.dmas {
		d.refs.Put()
	}
	if g.source != nil {
		g.source.refs.Put()
	}
	g.dmas, g.source = nil, nil
}

// enter makes the entries of a grant in the tables of the adapter.
func (h *HCA) enter(verb string, g *grant) (err error) {
	var u undo
	defer u.run(&err)
	index, e := h.mpts.take()
	if e != nil {
		return firmwareError(verb, e)
	}
	u.add(func() { h.mpts.release(index) })
	mtt, e := h.dev.AllocMTT(h.ctx, max(len(g.pages), 1))
	if e != nil {
		return firmwareError(verb, e)
	}
	u.add(mtt.Free)
	if e := mtt.Write(0, g.pages); e != nil {
		return firmwareError(verb, e)
	}
	if g.index, e = h.nextKeyIndex(index); e != nil {
		return firmwareError(verb, e)
	}
	g.mtt = mtt
	var b [64]byte
	g.encode(b[:])
	if e := h.cmd(prm.CmdSW2HWMPT, fw.Args{In: b[:], Modifier: h.mptModifier(g.index)}); e != nil {
		return firmwareError(verb, e)
	}
	key := ci.Key(prm.KeyOf(g.index))
	g.region.LKey = key
	if g.access&remoteRights != 0 {
		g.region.RKey = key
	}
	return nil
}

// encode writes the MPT entry.
func (g *grant) encode(b []byte) {
	prm.MPTOwner.Put(b, prm.MPTOwnerSW)
	prm.MPTMemory.Put(b, 1)
	prm.MPTRegion.Put(b, 1)
	prm.MPTLocalRead.Put(b, 1)
	for _, e := range []struct {
		f *prm.Field
		a ci.Access
	}{{&prm.MPTLocalWrite, ci.LocalWrite}, {&prm.MPTRemoteRead, ci.RemoteRead}, {&prm.MPTRemoteWrite, ci.RemoteWrite},
		{&prm.MPTAtomic, ci.RemoteAtomic}, {&prm.MPTBind, ci.BindWindow}} {
		if g.access&e.a != 0 {
			e.f.Put(b, 1)
		}
	}
	prm.MPTIndex.Put(b, uint64(g.index))
	prm.MPTPD.Put(b, uint64(g.pd.num))
	prm.MPTInvalidate.Put(b, 3)
	prm.MPTStart.Put(b, g.region.Addr)
	prm.MPTLength.Put(b, g.region.Length)
	at := g.mtt.Offset()
	prm.MPTMTTHigh.Put(b, at>>32)
	prm.MPTMTTLow.Put(b, at&0xffffffff)
	prm.MPTLogPage.Put(b, 12)
}

// leave removes the entries of a grant, and releases its storage.
func (h *HCA) leave(g *grant) error {
	err := h.release(prm.CmdHW2SWMPT, fw.Args{Modifier: h.mptModifier(g.index), OpModifier: 1})
	if err != nil {
		return err
	}
	h.mpts.release(h.mptModifier(g.index))
	if g.mtt != nil {
		g.mtt.Free()
	}
	g.drop()
	return nil
}

// Region returns the address range and the keys.
func (m *mr) Region() ci.Region { return m.now.Load().region }

// Query returns the attributes. Status: InvalidMRHandle.
func (m *mr) Query() (ci.MRAttr, error) {
	if !m.refs.Alive() {
		return ci.MRAttr{}, fail("MR.Query", ci.InvalidMRHandle, "")
	}
	g := m.now.Load()
	a := ci.MRAttr{Region: g.region, PD: g.face, Access: g.access}
	if g.region.Length > 0 {
		a.LocalLo, a.LocalHi = g.region.Addr, g.region.Addr+g.region.Length
		if g.access&remoteRights != 0 {
			a.RemoteLo, a.RemoteHi = a.LocalLo, a.LocalHi
		}
	}
	return a, nil
}

// Destroy deregisters the region. Status: ResourceBusy (a window is bound, or a shared region exists),
// InvalidMRHandle.
func (m *mr) Destroy() error {
	const verb = "MR.Destroy"
	m.modify.Lock()
	defer m.modify.Unlock()
	if err := m.refs.BeginDestroy(verb, ci.InvalidMRHandle); err != nil {
		return err
	}
	g := m.now.Load()
	if err := m.hca.leave(g); err != nil {
		m.refs.Revive()
		return firmwareError(verb, err)
	}
	m.hca.mrs.Give()
	g.pd.refs.Put()
	return nil
}
