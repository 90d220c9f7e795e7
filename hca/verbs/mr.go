//go:build linux && (amd64 || arm64)

package verbs

import (
	"os"

	"ciddk/ci"
	"ciddk/ci/driver"
	"ciddk/hca/verbs/internal/ibv"
)

type mr struct {
	ci.UnimplementedMR
	refs   driver.Refs
	pd     *pd
	mr     ibv.MR
	region ci.Region
	access ci.Access
	memory ci.Memory // keeps the storage
	unpin  func()
}

// rights are the rights of regions that libibverbs has.
const rights = ci.RemoteRead | ci.RemoteWrite | ci.RemoteAtomic | ci.LocalWrite | ci.BindWindow

// accessOf returns rights as the library has them.
func accessOf(a ci.Access) (out uint32) {
	for _, r := range []struct {
		ci  ci.Access
		ibv uint32
	}{{ci.RemoteRead, ibv.AccessRemoteRead}, {ci.RemoteWrite, ibv.AccessRemoteWrite},
		{ci.RemoteAtomic, ibv.AccessRemoteAtomic}, {ci.LocalWrite, ibv.AccessLocalWrite},
		{ci.BindWindow, ibv.AccessMWBind}, {ci.ZeroBased, ibv.AccessZeroBased}} {
		if a&r.ci != 0 {
			out |= r.ibv
		}
	}
	return out
}

// fromAccess is the reverse of accessOf, for the rights of a QP.
func fromAccess(v uint32) (a ci.Access) {
	for bit := ci.Access(1); bit <= ci.BindWindow; bit <<= 1 {
		if v&accessOf(bit) != 0 {
			a |= bit
		}
	}
	return a
}

// RegisterMR registers memory of this process. Status: InvalidParameter (range, kind of memory), InvalidPermission,
// Unsupported (zero-based), InsufficientResources, InvalidPDHandle.
func (p *pd) RegisterMR(c ci.MRCreate) (ci.MR, error) {
	const verb = "PD.RegisterMR"
	h := p.hca
	access := c.Access &^ ci.NotCachable // a hint
	switch {
	case ci.IsNil(c.Memory):
		return nil, fail(verb, ci.InvalidParameter, "Memory is nil")
	case access&ci.ZeroBased != 0:
		return nil, fail(verb, ci.Unsupported, "CapZeroBased is not claimed")
	case access&ci.FlushRights != 0:
		return nil, fail(verb, ci.Unsupported, "CapFlush is not claimed")
	case access&^rights != 0:
		return nil, fail(verb, ci.InvalidParameter, "unknown rights")
	}
	size := c.Memory.Len()
	if c.Length == 0 && c.Offset < size {
		c.Length = size - c.Offset
	}
	if c.Offset > size || c.Length > size-c.Offset || c.Length == 0 {
		return nil, fail(verb, ci.InvalidParameter, "Offset and Length are not within Memory")
	}
	if c.IOVA == 0 {
		c.IOVA = c.Memory.Addr() + c.Offset
	}
	if page := uint64(os.Getpagesize()); c.IOVA%page != (c.Memory.Addr()+c.Offset)%page {
		return nil, fail(verb, ci.InvalidParameter, "the offset of IOVA in its page is not that of the memory")
	}
	b := c.Memory.Slice(c.Offset, c.Length)
	if uint64(len(b)) != c.Length {
		return nil, fail(verb, ci.InvalidParameter, "Memory: this process cannot address it in one piece")
	}
	unpin, err := c.Memory.Pin()
	if err != nil {
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: "Memory.Pin", Err: err}
	}
	if err := p.hold(verb, &h.mrs); err != nil {
		unpin()
		return nil, err
	}
	m := &mr{pd: p, access: c.Access, memory: c.Memory, unpin: unpin}
	if m.mr, err = h.dev.RegMR(p.pd, b, c.IOVA, accessOf(access)); err != nil {
		unpin()
		p.release(&h.mrs)
		if access&(ci.RemoteWrite|ci.RemoteAtomic) != 0 && access&ci.LocalWrite == 0 {
			return nil, reject(verb, err, ci.InvalidPermission)
		}
		return nil, reject(verb, err, ci.Success)
	}
	lkey, rkey := m.mr.Keys()
	m.region = ci.Region{Addr: c.IOVA, Length: c.Length, LKey: ci.Key(lkey), RKey: ci.Key(rkey)}
	return m, nil
}

// Region returns the address range and the keys.
func (m *mr) Region() ci.Region { return m.region }

// Query returns the attributes. Status: InvalidMRHandle.
func (m *mr) Query() (ci.MRAttr, error) {
	if !m.refs.Alive() {
		return ci.MRAttr{}, fail("MR.Query", ci.InvalidMRHandle, "")
	}
	low, high := m.region.Addr, m.region.Addr+m.region.Length
	return ci.MRAttr{Region: m.region, PD: m.pd, Access: m.access, LocalLo: low, LocalHi: high, RemoteLo: low,
		RemoteHi: high}, nil
}

// Destroy deregisters the region. Status: ResourceBusy (a window is bound), InvalidMRHandle.
func (m *mr) Destroy() error {
	const verb = "MR.Destroy"
	err := m.refs.DestroyIf(verb, ci.InvalidMRHandle, func() error {
		if err := m.pd.hca.dev.DeregMR(m.mr); err != nil {
			return reject(verb, err, ci.Success)
		}
		return nil
	})
	if err != nil {
		return err
	}
	m.unpin()
	m.pd.release(&m.pd.hca.mrs)
	return nil
}
