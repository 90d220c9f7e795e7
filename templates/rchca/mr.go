package rchca

import (
	"errors"

	"ciddk/ci"
	"ciddk/ci/driver"
)

type mr struct {
	ci.UnimplementedMR
	refs  driver.Refs
	pd    *pd
	c     ci.MRCreate // holds the Memory until Destroy
	r     ci.Region
	unpin func()
}

// RegisterMR pins memory and enters it into the table of the hardware. Status: InvalidParameter (range, unknown right,
// IOVA, memory that this hardware cannot access), InvalidPermission, Unsupported (rights without a claim),
// InvalidPDHandle, InsufficientResources, Timeout.
func (p *pd) RegisterMR(c ci.MRCreate) (ci.MR, error) {
	const verb = "PD.RegisterMR"
	const rights = ci.RemoteRead | ci.RemoteWrite | ci.LocalWrite | ci.NotCachable
	const optional = ci.RemoteAtomic | ci.BindWindow | ci.ZeroBased | ci.FlushRights
	h := p.hca
	switch {
	case c.Access&^(rights|optional) != 0:
		return nil, fail(verb, ci.InvalidParameter, "unknown access right")
	case c.Access&(ci.RemoteWrite|ci.RemoteAtomic) != 0 && c.Access&ci.LocalWrite == 0:
		return nil, fail(verb, ci.InvalidPermission, "RemoteWrite and RemoteAtomic need LocalWrite")
	case c.Access&(ci.ZeroBased|ci.FlushRights) != 0:
		return nil, fail(verb, ci.Unsupported, "zero-based regions and flushes are not claimed")
	case ci.IsNil(c.Memory) || c.Offset > c.Memory.Len() || c.Length > c.Memory.Len()-c.Offset:
		return nil, fail(verb, ci.InvalidParameter, "the memory is nil, or the range is outside of it")
	}
	if c.Length == 0 {
		c.Length = c.Memory.Len() - c.Offset
	}
	first := c.Memory.Addr() + c.Offset
	if c.IOVA == 0 {
		c.IOVA = first
	}
	switch {
	case c.Length == 0:
		return nil, fail(verb, ci.InvalidParameter, "the region is empty")
	case (c.IOVA^first)&(h.info.PageSize-1) != 0:
		return nil, fail(verb, ci.InvalidParameter, "IOVA and memory have different offsets in a page")
	case c.IOVA+c.Length < c.IOVA:
		return nil, fail(verb, ci.InvalidParameter, "the region exceeds the end of the address space")
	}
	if !p.refs.Get() {
		return nil, fail(verb, ci.InvalidPDHandle, "")
	}
	if err := h.mrs.Take(verb); err != nil {
		p.refs.Put()
		return nil, err
	}
	unpin, err := c.Memory.Pin()
	if err != nil {
		h.mrs.Give()
		p.refs.Put()
		return nil, &ci.Error{Verb: verb, Status: ci.InsufficientResources, Detail: "pinning the memory", Err: err}
	}
	key, err := h.dev.Map(Region{PD: p.num, Addr: c.IOVA, Access: c.Access,
		Pieces: views(c.Memory, c.Offset, c.Length), Memory: c.Memory, Offset: c.Offset, Length: c.Length})
	if err != nil {
		unpin()
		h.mrs.Give()
		p.refs.Put()
		if errors.Is(err, ErrMemory) {
			return nil, &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: "the memory", Err: err}
		}
		return nil, commandError(verb, err)
	}
	return &mr{pd: p, c: c, unpin: unpin, r: ci.Region{Addr: c.IOVA, Length: c.Length, LKey: key, RKey: key}}, nil
}

// views returns the bytes of memory as slices. It returns nil if the memory has no such slices.
func views(m ci.Memory, off, n uint64) (list [][]byte) {
	for n > 0 {
		b := m.Slice(off, n)
		if len(b) == 0 {
			return nil
		}
		list = append(list, b)
		off, n = off+uint64(len(b)), n-uint64(len(b))
	}
	return list
}

// Region returns the addresses and keys of the region. They are constant, because there is no Modify.
func (m *mr) Region() ci.Region { return m.r }

// Query returns the attributes of the region. Status: InvalidMRHandle.
func (m *mr) Query() (ci.MRAttr, error) {
	if !m.refs.Alive() {
		return ci.MRAttr{}, fail("MR.Query", ci.InvalidMRHandle, "")
	}
	end := m.r.Addr + m.r.Length
	a := ci.MRAttr{Region: m.r, PD: m.pd, Access: m.c.Access, LocalLo: m.r.Addr, LocalHi: end}
	if a.Access&(ci.RemoteRead|ci.RemoteWrite|ci.RemoteAtomic) != 0 {
		a.RemoteLo, a.RemoteHi = m.r.Addr, end
	}
	return a, nil
}

// Destroy removes the region from the table of the hardware and unpins the memory. Status: InvalidMRHandle,
// ResourceBusy (a window is bound to it), Timeout.
func (m *mr) Destroy() error {
	const verb = "MR.Destroy"
	err := m.refs.DestroyIf(verb, ci.InvalidMRHandle, func() error {
		err := m.pd.hca.dev.Unmap(m.r.LKey)
		if errors.Is(err, ErrBound) { // mw.go
			return &ci.Error{Verb: verb, Status: ci.ResourceBusy, Err: err}
		}
		if err != nil {
			return commandError(verb, err) // the memory stays pinned, because the hardware may still write to it
		}
		return nil
	})
	if err != nil {
		return err
	}
	m.unpin()
	m.c.Memory = nil
	m.pd.hca.mrs.Give()
	m.pd.refs.Put()
	return nil
}
