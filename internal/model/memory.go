package model

import (
	"bytes"
	"fmt"
	"slices"

	"ciddk/ci"
)

// Memory is the storage of a consumer, as it must be.
type Memory struct {
	Addr    uint64 // of the first byte
	Bytes   []byte
	unknown map[int]bool // bytes whose value is not specified
	hazy    map[int]bool // the same, and they may change until they are written again
}

// NewMemory returns memory with a copy of the bytes.
func NewMemory(addr uint64, b []byte) *Memory {
	return &Memory{Addr: addr, Bytes: append([]byte(nil), b...), unknown: map[int]bool{}, hazy: map[int]bool{}}
}

// Compare returns the violation for the first byte that differs, and accepts the value of bytes that are not specified.
func (m *Memory) Compare(where string, got []byte, rule Rule) *Violation {
	if bytes.Equal(got, m.Bytes) {
		got = nil
	}
	for i, b := range got {
		switch {
		case b == m.Bytes[i]:
		case m.unknown[i] || m.hazy[i]:
			m.Bytes[i] = b
		default:
			n := 0
			for j := i; j < len(got) && got[j] != m.Bytes[j]; j++ {
				n++
			}
			v := violation(rule, where, fmt.Sprintf("byte %d (and %d after it): % x", i, n-1, m.Bytes[i:min(i+n, i+8)]),
				"% x", got[i:min(i+n, i+8)])
			v.Doubt = true // data may be late
			return v
		}
	}
	clear(m.unknown)
	return nil
}

// IsHazy reports whether a message that has begun may still write to bytes.
func (m *Memory) IsHazy(off, n int) bool {
	for i := off; i < off+n; i++ {
		if m.hazy[i] {
			return true
		}
	}
	return false
}

// forget makes bytes unspecified.
func (m *Memory) forget(off, n int) {
	for i := off; i < off+n; i++ {
		m.unknown[i] = true
	}
}

// A Region is a range of addresses with keys and rights: an MR, a bound window, or the mapping of an FMR.
type Region struct {
	Object
	ci.Region
	Access ci.Access
	Valid  bool // the keys grant access

	pages []page
	mem   *Memory
	start uint64 // offset in mem of address Addr, or its address in base
	va    uint64 // of a virtual region: its address, were it not zero-based
	base  *Region
	// Windows: the window, and for type 2 the QP through which it was bound.
	window *MW
	only   *QP

	source   *Region // of a shared region
	maxPages int     // of a region for fast registration; 0: another one
}

// A page is a run of addresses of an FMR or a physical region.
type page struct {
	mem  *Memory
	off  uint64
	size uint64
}

// piece is a run of bytes in one memory.
type piece struct {
	mem *Memory
	off int
	n   int
}

// pieces returns the bytes at addresses of the region.
func (r *Region) pieces(addr uint64, n int) (out []piece) {
	if r.base != nil {
		return r.base.pieces(r.start+addr-r.Addr, n)
	}
	off := addr - r.Addr
	if r.mem != nil {
		return []piece{{r.mem, int(r.start + off), n}}
	}
	off += r.start
	for _, p := range r.pages {
		if off >= p.size {
			off -= p.size
			continue
		}
		k := min(n, int(p.size-off))
		out = append(out, piece{p.mem, int(p.off + off), k})
		if n -= k; n == 0 {
			break
		}
		off = 0
	}
	return out
}

// covers reports whether the region has n bytes at addr.
func (r *Region) covers(addr uint64, n uint64) bool {
	return addr >= r.Addr && addr-r.Addr <= r.Length && n <= r.Length-(addr-r.Addr)
}

// legalAccess reports whether a region may have the rights (D-49).
func legalAccess(a ci.Access) bool {
	return a&ci.LocalWrite != 0 || a&(ci.RemoteWrite|ci.RemoteAtomic) == 0
}

const remoteRights = ci.RemoteRead | ci.RemoteWrite | ci.RemoteAtomic

// RegisterMR observes PD.RegisterMR of length bytes at offset off of m. got is the region of the driver.
func (pd *PD) RegisterMR(m *Memory, c ci.MRCreate, got ci.Region, err error) (*Region, *Violation) {
	const verb = "PD.RegisterMR"
	iova, n, outside := m.span(c)
	zero := c.Access&ci.ZeroBased != 0
	rule, want := Rule(""), []ci.Status(nil) // of several errors, any may be found first
	for _, x := range []struct {
		is     bool
		rule   Rule
		status []ci.Status
	}{
		{outside, "CI-RegisterMR-06", []ci.Status{ci.InvalidParameter}},
		{!legalAccess(c.Access), "CI-RegisterMR-02", []ci.Status{ci.InvalidPermission}},
		{zero && c.IOVA != 0, "CI-RegisterMR-06", []ci.Status{ci.InvalidParameter, ci.InvalidPermission}},
		{zero && !pd.CA.Attr.Caps.Has(ci.CapZeroBased), "CI-Claims-01", []ci.Status{ci.Unsupported}},
	} {
		if x.is && !pd.Dead {
			rule, want = x.rule, append(want, x.status...)
		}
	}
	if want != nil {
		return nil, wantStatus(verb, err, rule, want...)
	}
	if v := pd.created(KindMR, verb, err); v != nil || err != nil {
		return nil, v
	}
	va := iova
	if zero {
		iova = 0
	}
	if got.Addr != iova || got.Length != n {
		return nil, violation("CI-RegisterMR-01", verb, fmt.Sprintf("%d bytes at %#x", n, iova), "%d at %#x",
			got.Length, got.Addr)
	}
	r := &Region{Region: got, Access: c.Access, Valid: true, mem: m, start: c.Offset, va: va}
	return r, r.enter(pd, verb)
}

// span returns the addresses of a region. outside is true if it is not in the memory.
func (m *Memory) span(c ci.MRCreate) (iova, n uint64, outside bool) {
	if n = c.Length; n == 0 && c.Offset <= uint64(len(m.Bytes)) {
		n = uint64(len(m.Bytes)) - c.Offset // D-52
	}
	if iova = c.IOVA; iova == 0 {
		iova = m.Addr + c.Offset
	}
	return iova, n, c.Offset > uint64(len(m.Bytes)) || n > uint64(len(m.Bytes))-c.Offset || n == 0 ||
		(iova-m.Addr-c.Offset)&4095 != 0
}

// Modify observes MR.Modify of what set names: the PD to pd, the bytes to those of m. got is the region of the driver
// after it.
func (r *Region) Modify(set ci.MRField, pd *PD, m *Memory, c ci.MRCreate, got ci.Region, err error) *Violation {
	const verb = "MR.Modify"
	if v, ok := r.stale(verb, err); ok {
		return v
	}
	if !r.CA.Attr.Caps.Has(ci.CapModifyMR) {
		return wantStatus(verb, err, "CI-Claims-01", ci.Unsupported)
	}
	to := *r
	var want []ci.Status
	if set&ci.MRFieldAccess != 0 {
		if to.Access = c.Access; !legalAccess(c.Access) {
			want = append(want, ci.InvalidPermission)
		}
	}
	if set&ci.MRFieldMemory != 0 {
		var outside bool
		if to.va, to.Length, outside = m.span(c); outside {
			want = append(want, ci.InvalidParameter)
		}
		to.mem, to.start, to.pages = m, c.Offset, nil
	}
	if to.va != 0 {
		to.Addr = to.va
	}
	if to.Access&ci.ZeroBased != 0 {
		to.Addr = 0
	}
	if set&ci.MRFieldPD != 0 {
		if to.PD = pd; pd.Dead {
			want = append(want, ci.InvalidPDHandle)
		}
	}
	rule := Rule("CI-ModifyMR-03")
	if r.users > 0 {
		rule, want = "CI-ModifyMR-04", append(want, ci.ResourceBusy)
	}
	if len(want) == 0 {
		rule, want = "CI-ModifyMR-01", []ci.Status{ci.Success}
	}
	if v := wantStatus(verb, err, rule, want...); v != nil {
		return v
	}
	if err != nil { // nothing has changed
		to = *r
	}
	if got.Addr != to.Addr || got.Length != to.Length {
		return violation(rule, verb, fmt.Sprintf("%d bytes at %#x", to.Length, to.Addr), "%d at %#x",
			got.Length, got.Addr)
	}
	if err != nil {
		if got.LKey != r.LKey || r.Access&remoteRights != 0 && got.RKey != r.RKey {
			return violation(rule, verb, "the keys before", "%+v", got)
		}
		return nil
	}
	r.CA.dropKeys(r)
	r.PD.users--
	*r = to
	r.PD.users++
	r.LKey, r.RKey, r.Valid = got.LKey, got.RKey, true
	return r.CA.addKeys(verb, r)
}

// IsVirtual reports whether the region has addresses of its own, which it has again when it is no longer zero-based.
func (r *Region) IsVirtual() bool { return r.va != 0 }

// FMR is a region that is mapped to pages again and again.
type FMR struct {
	Object
	Create ci.FMRCreate
	Now    *Region // what it is mapped to, or nil

	maps int // since it was unmapped
}

// AllocFMR observes PD.AllocFMR of valid sizes.
func (pd *PD) AllocFMR(c ci.FMRCreate, err error) (*FMR, *Violation) {
	const verb = "PD.AllocFMR"
	if !pd.Dead && !legalAccess(c.Access) {
		return nil, wantStatus(verb, err, "CI-AllocFMR-01", ci.InvalidPermission)
	}
	if v := pd.created(KindFMR, verb, err); v != nil || err != nil {
		return nil, v
	}
	f := &FMR{Create: c}
	f.init(KindFMR, pd.CA, pd)
	return f, nil
}

// Map observes FMR.Map to pages of m, which begin at the offsets. got is what it returned.
func (f *FMR) Map(m *Memory, offsets []uint64, iova uint64, got ci.Region, err error) *Violation {
	const verb = "FMR.Map"
	if v, ok := f.stale(verb, err); ok {
		return v
	}
	rule, want := Rule("CI-MapFMR-01"), []ci.Status(nil)
	if f.maps == f.Create.MaxMaps {
		rule, want = "CI-MapFMR-02", append(want, ci.InsufficientResources)
	}
	if len(offsets) == 0 || len(offsets) > f.Create.MaxPages {
		rule, want = "CI-MapFMR-03", append(want, ci.InvalidParameter)
	}
	size := uint64(1) << f.Create.PageShift
	if slices.ContainsFunc(offsets, func(o uint64) bool { return o%size != 0 || o >= uint64(len(m.Bytes)) }) {
		rule, want = "CI-MapFMR-03", append(want, ci.InvalidParameter)
	}
	if want == nil {
		want = append(want, ci.Success)
	}
	if v := wantStatus(verb, err, rule, want...); v != nil || err != nil {
		return v
	}
	r := &Region{Region: got, Access: f.Create.Access, Valid: true, pages: pagesOf(m, offsets, size)}
	if n := size * uint64(len(offsets)); got.Addr != iova || got.Length != n {
		return violation(rule, verb, fmt.Sprintf("%d bytes at %#x", n, iova), "%d at %#x", got.Length, got.Addr)
	}
	f.unmap()
	r.Kind, r.CA, r.PD = KindFMR, f.CA, f.PD
	f.Now, f.users = r, 1
	f.maps++
	return f.CA.addKeys(verb, r)
}

func (f *FMR) unmap() {
	if f.Now != nil {
		f.CA.dropKeys(f.Now)
		f.Now.Dead = true
	}
	f.Now, f.users = nil, 0
}

// UnmapFMRs observes PD.UnmapFMRs.
func (pd *PD) UnmapFMRs(list []*FMR, err error) *Violation {
	const verb = "PD.UnmapFMRs"
	if v, ok := pd.stale(verb, err); ok {
		return v
	}
	for _, f := range list {
		if f.Dead {
			return wantStatus(verb, err, "CI-UnmapFMR-02", ci.InvalidFMRHandle)
		}
	}
	if v := wantStatus(verb, err, "CI-UnmapFMR-01", ci.Success); v != nil {
		return v
	}
	for _, f := range list {
		f.unmap()
		f.maps = 0
	}
	return nil
}

// Destroy observes FMR.Destroy.
func (f *FMR) Destroy(err error) *Violation { _, v := f.destroy(err); return v }

// addKeys enters the keys of a region in the tables. They differ from all others (CI-RegisterMR-09).
func (c *CA) addKeys(verb string, r *Region) *Violation {
	if r.Kind != KindMW && c.lkeys[r.LKey] != nil {
		return violation("CI-RegisterMR-09", verb, "an L_Key that no region has", "%#x", uint32(r.LKey))
	}
	if r.Access&remoteRights != 0 && c.rkeys[r.RKey] != nil {
		return violation("CI-RegisterMR-09", verb, "an R_Key that no region has", "%#x", uint32(r.RKey))
	}
	if r.Kind != KindMW {
		c.lkeys[r.LKey] = r
	}
	if r.Access&remoteRights != 0 {
		c.rkeys[r.RKey] = r
	}
	return nil
}

// dropKeys removes the keys of a region.
func (c *CA) dropKeys(r *Region) {
	for _, t := range []struct {
		table map[ci.Key]*Region
		key   ci.Key
	}{{c.lkeys, r.LKey}, {c.rkeys, r.RKey}} {
		if t.table[t.key] == r {
			delete(t.table, t.key)
		}
	}
	r.Valid = false
}

// Destroy observes the Destroy of a region.
func (r *Region) Destroy(err error) *Violation {
	var uses []*Object
	if r.source != nil {
		uses = append(uses, &r.source.Object)
	}
	ended, v := r.destroy(err, uses...)
	if ended {
		r.CA.dropKeys(r)
	}
	return v
}

// Query observes MR.Query.
func (r *Region) Query(got ci.MRAttr, err error) *Violation {
	const verb, rule = "MR.Query", Rule("CI-QueryMR-01")
	if v, ok := r.stale(verb, err); ok {
		return v
	}
	if v := wantStatus(verb, err, rule, ci.Success); v != nil {
		return v
	}
	hasRemote := r.Access&remoteRights != 0
	if !hasRemote {
		got.RKey = r.RKey // valid with remote rights only
	}
	if r.maxPages > 0 { // what it shows while it is not mapped is open
		return nil
	}
	if got.Region != r.Region || got.Access != r.Access {
		return violation(rule, verb, fmt.Sprintf("%+v, access %#x", r.Region, uint32(r.Access)), "%+v, access %#x",
			got.Region, uint32(got.Access))
	}
	if got.LocalLo > r.Addr || got.LocalHi < r.Addr+r.Length {
		return violation(rule, verb, fmt.Sprintf("bounds around %#x to %#x", r.Addr, r.Addr+r.Length), "%#x to %#x",
			got.LocalLo, got.LocalHi)
	}
	if hasRemote && (got.RemoteLo > r.Addr || got.RemoteHi < r.Addr+r.Length) {
		return violation(rule, verb, fmt.Sprintf("bounds for peers around %#x to %#x", r.Addr, r.Addr+r.Length),
			"%#x to %#x", got.RemoteLo, got.RemoteHi)
	}
	return nil
}

// local returns the bytes of a list of segments, or the reason why a QP cannot use it: a completion status. need is
// ci.LocalWrite if the adapter writes to them.
func (pd *PD) local(sgl []ci.SGE, need ci.Access) (out []piece, n int, status ci.WCStatus) {
	for _, s := range sgl {
		if s.Length == 0 {
			continue
		}
		r := pd.CA.lkeys[s.LKey]
		if r == nil || !r.Valid || r.PD != pd || !r.covers(s.Addr, uint64(s.Length)) || r.Access&need != need {
			return nil, 0, ci.WCLocalProtErr
		}
		out = append(out, r.pieces(s.Addr, int(s.Length))...)
		n += int(s.Length)
	}
	return out, n, ci.WCSuccess
}

// remote returns the bytes that a request of a peer names, or nil if the responder's QP denies access.
func (q *QP) remote(to ci.Remote, n int, need ci.Access) (out []piece, ok bool) {
	if n == 0 {
		return nil, true // IBTA-9.4-07
	}
	r := q.CA.rkeys[to.RKey]
	if r == nil || !r.Valid || r.PD != q.PD || !r.covers(to.Addr, uint64(n)) || r.Access&need != need ||
		r.only != nil && r.only != q {
		return nil, false
	}
	if r.window != nil && r.window.Vague {
		q.loosen()
	}
	return r.pieces(to.Addr, n), true
}

// datum is a byte on its way: its value, and whether it is known.
type datum struct {
	b       byte
	unknown bool
}

// gather reads pieces.
func gather(ps []piece) (out []datum) {
	for _, p := range ps {
		for i := p.off; i < p.off+p.n; i++ {
			out = append(out, datum{p.mem.Bytes[i], p.mem.unknown[i] || p.mem.hazy[i]})
		}
	}
	return out
}

// scatter writes as much of data to pieces as fits.
func scatter(ps []piece, data []datum) {
	k := 0
	for _, p := range ps {
		for i := p.off; i < p.off+p.n && k < len(data); i++ {
			p.mem.Bytes[i] = data[k].b
			delete(p.mem.hazy, i)
			if data[k].unknown { // nothing may show when it is written
				p.mem.hazy[i] = true
			} else {
				delete(p.mem.unknown, i)
			}
			k++
		}
	}
}

// forget makes pieces unspecified: those of an operation that failed, which may have been written in part.
func forget(ps []piece) {
	for _, p := range ps {
		p.mem.forget(p.off, p.n)
	}
}

// known returns bytes as data.
func known(b []byte) []datum {
	out := make([]datum, len(b))
	for i, x := range b {
		out[i].b = x
	}
	return out
}

// haze makes pieces unspecified until they are written again: those of a message of which a part may still arrive.
func haze(ps []piece) {
	for _, p := range ps {
		for i := p.off; i < p.off+p.n; i++ {
			p.mem.hazy[i] = true
		}
	}
}

// valid returns the bytes of a list of segments that the adapter may write, without those beyond the end of a region.
func (pd *PD) valid(sgl []ci.SGE) (out []piece) {
	for _, s := range sgl {
		if r := pd.CA.lkeys[s.LKey]; r != nil && r.covers(s.Addr, 0) {
			s.Length = uint32(min(uint64(s.Length), r.Addr+r.Length-s.Addr))
		}
		if ps, _, bad := pd.local([]ci.SGE{s}, ci.LocalWrite); bad == ci.WCSuccess {
			out = append(out, ps...)
		}
	}
	return out
}
