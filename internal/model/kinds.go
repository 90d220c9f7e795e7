package model

import (
	"fmt"
	"slices"

	"ciddk/ci"
)

// RegisterPMR observes PD.RegisterPMR of pages of m, which begin at the offsets.
func (pd *PD) RegisterPMR(m *Memory, offsets []uint64, c ci.PMRCreate, got ci.Region, err error) (*Region, *Violation) {
	const verb, rule = "PD.RegisterPMR", Rule("CI-RegisterPMR-02")
	if v, ok := pd.refused(verb, ci.CapPhysicalMR, c.Access, err); ok {
		return nil, v
	}
	if v := pd.created(KindMR, verb, err); v != nil || err != nil {
		return nil, v
	}
	if got.Length != c.Length || c.Access&ci.ZeroBased == 0 && (got.Addr^c.Offset)&(c.PageSize-1) != 0 {
		return nil, violation(rule, verb, fmt.Sprintf("%d bytes at %#x of a page", c.Length, c.Offset), "%d at %#x",
			got.Length, got.Addr)
	}
	r := &Region{Region: got, Access: c.Access, Valid: true, start: c.Offset, pages: pagesOf(m, offsets, c.PageSize)}
	return r, r.enter(pd, verb)
}

// refused observes a registration that cannot succeed. ok is false if it can.
func (pd *PD) refused(verb string, needs ci.Caps, a ci.Access, err error) (v *Violation, ok bool) {
	switch caps := pd.CA.Attr.Caps; {
	case pd.Dead:
		return nil, false
	case !caps.Has(needs), a&ci.ZeroBased != 0 && !caps.Has(ci.CapZeroBased):
		return wantStatus(verb, err, "CI-Claims-01", ci.Unsupported), true
	case !legalAccess(a):
		return wantStatus(verb, err, "CI-RegisterMR-02", ci.InvalidPermission), true
	}
	return nil, false
}

func pagesOf(m *Memory, offsets []uint64, size uint64) (out []page) {
	for _, off := range offsets {
		out = append(out, page{m, off, size})
	}
	return out
}

// enter makes a new region an object with keys.
func (r *Region) enter(pd *PD, verb string, uses ...*Object) *Violation {
	if v := pd.CA.addKeys(verb, r); v != nil {
		return v
	}
	r.init(KindMR, pd.CA, pd, uses...)
	return nil
}

// RegisterSMR observes PD.RegisterSMR of a region with its own addresses.
func (pd *PD) RegisterSMR(src *Region, a ci.Access, got ci.Region, err error) (*Region, *Violation) {
	const verb, rule = "PD.RegisterSMR", Rule("CI-RegisterSMR-01")
	if v, ok := pd.refused(verb, ci.CapSharedMR, a, err); ok {
		return nil, v
	}
	if src.Dead && !pd.Dead {
		return nil, wantStatus(verb, err, "CI-RegisterSMR-03", ci.InvalidMRHandle)
	}
	if v := pd.created(KindMR, verb, err); v != nil || err != nil {
		return nil, v
	}
	if got.Addr != src.Addr || got.Length != src.Length {
		return nil, violation(rule, verb, fmt.Sprintf("%d bytes at %#x", src.Length, src.Addr), "%d at %#x", got.Length,
			got.Addr)
	}
	r := &Region{Region: got, Access: a, Valid: true, mem: src.mem, pages: src.pages, start: src.start, source: src}
	return r, r.enter(pd, verb, &src.Object)
}

// AllocFastRegMR observes PD.AllocFastRegMR of a valid number of pages.
func (pd *PD) AllocFastRegMR(maxPages int, got ci.Region, err error) (*Region, *Violation) {
	const verb = "PD.AllocFastRegMR"
	if v, ok := pd.refused(verb, ci.CapFastReg, 0, err); ok {
		return nil, v
	}
	if v := pd.created(KindMR, verb, err); v != nil || err != nil {
		return nil, v
	}
	r := &Region{Region: ci.Region{LKey: got.LKey, RKey: got.LKey}, maxPages: maxPages}
	return r, r.enter(pd, verb)
}

// A FastReg is a request that maps a region to pages of m.
type FastReg struct {
	Region  *Region
	Memory  *Memory
	Offsets []uint64
	ci.FastReg
}

// cannotMap reports whether a fast registration fails, and the rule.
func (f *FastReg) cannotMap(q *QP) (Rule, bool) {
	r, size := f.Region, uint64(1)<<f.PageShift
	switch {
	case r.Dead || r.PD != q.PD || r.Valid || len(f.Offsets) > r.maxPages || (f.Key^r.LKey)&^0xff != 0:
		return "CI-FastReg-02", true
	case len(f.Offsets) == 0 || !legalAccess(f.Access) || uint64(f.FastReg.Offset) >= size,
		f.Length > size*uint64(len(f.Offsets))-uint64(f.FastReg.Offset),
		f.Access&ci.ZeroBased == 0 && f.IOVA&(size-1) != uint64(f.FastReg.Offset):
		return "CI-FastReg-04", true
	}
	return "", false
}

// execute maps the region.
func (f *FastReg) execute(q *QP) (ci.WCStatus, Rule) {
	r, size := f.Region, uint64(1)<<f.PageShift
	if rule, bad := f.cannotMap(q); bad {
		return ci.WCBindErr, rule
	}
	q.CA.dropKeys(r)
	r.Region = ci.Region{Addr: f.IOVA, Length: f.Length, LKey: f.Key, RKey: f.Key}
	if f.Access&ci.ZeroBased != 0 {
		r.Addr = 0
	}
	r.Access, r.Valid = f.Access, true
	r.start, r.pages = uint64(f.FastReg.Offset), pagesOf(f.Memory, f.Offsets, size)
	q.CA.lkeys[f.Key] = r
	if f.Access&remoteRights != 0 {
		q.CA.rkeys[f.Key] = r
	}
	return ci.WCSuccess, "CI-FastReg-01"
}

// IsFast reports whether the region is one for fast registrations.
func (r *Region) IsFast() bool { return r.maxPages > 0 }

// fastRegion returns the mapped region that an invalidation of a key through the QP unmaps, or nil.
func (q *QP) fastRegion(key ci.Key) *Region {
	r := q.CA.lkeys[key]
	if r == nil || r.maxPages == 0 || !r.Valid || r.PD != q.PD || r.users > 0 {
		return nil
	}
	return r
}

// unmap takes the storage of a fast registration away. Its key stays that of the region.
func (r *Region) unmap() {
	r.Valid, r.Access = false, 0
	r.Addr, r.Length = 0, 0
	delete(r.CA.rkeys, r.RKey)
}

// Attachment is the membership of a QP in a multicast group.
type Attachment struct {
	Object
	q     *QP
	group ci.GID
}

// AttachMcast observes QP.AttachMcast to a group with a valid GID and LID. most is the number of attachments that the
// limits permit at least.
func (q *QP) AttachMcast(group ci.GID, err error) (*Attachment, *Violation) {
	const verb = "QP.AttachMcast"
	a := q.CA.Attr
	if v, ok := q.stale(verb, err); ok {
		return nil, v
	}
	switch {
	case !a.Caps.Has(ci.CapMulticast):
		return nil, wantStatus(verb, err, "CI-Claims-01", ci.Unsupported)
	case q.Type != ci.UD:
		return nil, wantStatus(verb, err, "CI-Mcast-03", ci.InvalidServiceType)
	}
	members, groups := 0, map[ci.GID]bool{group: true}
	for _, m := range q.CA.members {
		if groups[m.group] = true; m.group == group {
			members++
		}
	}
	want := []ci.Status{ci.Success}
	if members >= a.MaxQPsPerMcastGroup || len(q.CA.members) >= a.MaxMcastQPs {
		want = []ci.Status{ci.MaxMcastQPsReached, ci.Success}
	} else if len(groups) > a.MaxMcastGroups {
		want = []ci.Status{ci.InsufficientResources, ci.Success}
	}
	if v := wantStatus(verb, err, "CI-Mcast-11", want...); v != nil || err != nil {
		return nil, v
	}
	m := &Attachment{q: q, group: group}
	m.Kind, m.CA = KindMcast, q.CA
	q.users++
	q.CA.members = append(q.CA.members, m)
	return m, nil
}

// Destroy observes Mcast.Destroy.
func (m *Attachment) Destroy(err error) *Violation {
	if v, ok := m.stale("Mcast.Destroy", err); ok {
		return v
	}
	if v := wantStatus("Mcast.Destroy", err, "SAS-2.3-26", ci.Success); v != nil {
		return v
	}
	m.Dead = true
	m.q.users--
	m.CA.members = slices.DeleteFunc(m.CA.members, func(x *Attachment) bool { return x == m })
	return nil
}

// isGroup reports whether an address is that of a multicast group (IBTA 4.1.1, and D-88 for IPv4).
func isGroup(g ci.GID) bool {
	v4 := [12]byte{10: 0xff, 11: 0xff}
	return g[0] == 0xff || [12]byte(g[:12]) == v4 && g[12]>>4 == 0xe
}

// Members returns the QPs of the adapter that are attached to a group.
func (c *CA) Members(group ci.GID) []*QP { return c.attached(group) }

// attached returns the QPs of an adapter that receive what is sent to a group, each once (CI-Mcast-07).
func (c *CA) attached(group ci.GID) (out []*QP) {
	for _, m := range c.members {
		if m.group == group && !slices.Contains(out, m.q) {
			out = append(out, m.q)
		}
	}
	return out
}
