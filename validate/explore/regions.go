package explore

import (
	"fmt"
	"math/bits"

	"ciddk/ci"
	"ciddk/internal/model"
)

// ModifyMR modifies a region. What it was, which must not be reached any more, gets a name of its own.
type ModifyMR struct {
	MR, Was  int
	Set      ci.MRField
	PD       int
	Off, Len int
	Access   ci.Access
}

func (s ModifyMR) String() string {
	t := fmt.Sprintf("modify MR %d, which was MR %d, to", s.MR, s.Was)
	if s.Set&ci.MRFieldPD != 0 {
		t += fmt.Sprintf(" PD %d", s.PD)
	}
	if s.Set&ci.MRFieldMemory != 0 {
		t += fmt.Sprintf(" bytes %d to %d", s.Off, s.Off+s.Len)
	}
	if s.Set&ci.MRFieldAccess != 0 {
		t += " " + accessNames(s.Access)
	}
	return t
}

func (s ModifyMR) run(r *Run) *model.Violation {
	o, ok := get[*mrObj](r, s.MR)
	pd, ok2 := get[*pdObj](r, s.PD)
	if !ok || !ok2 || o.d == nil || pd.s != o.s {
		return nil
	}
	c := ci.MRCreate{Access: s.Access}
	if s.Set&ci.MRFieldMemory != 0 {
		c.Memory, c.Offset, c.Length = ci.Bytes(o.s.bytes), uint64(s.Off), uint64(s.Len)
	}
	old := *o.m
	old.Dead = true
	err := o.d.Modify(s.Set, pd.d, c)
	now := o.region
	if !o.m.Dead {
		now = o.d.Region()
	}
	v := o.m.Modify(s.Set, pd.m, o.s.mem, c, now, err)
	if v == nil && err == nil {
		r.put(s.Was, &mrObj{m: &old, s: o.s, region: o.region})
		if o.region = now; s.Set&ci.MRFieldPD != 0 {
			o.pd = pd.d
		}
	}
	if v != nil || o.m.Dead {
		return v
	}
	if v = o.query(); v != nil && err != nil {
		v.Rule = "CI-ModifyMR-03"
	}
	return v
}

// NewFMR allocates an FMR. The regions that it is mapped to have the name Now.
type NewFMR struct {
	As, Now, PD, Pages, Maps int
	Access                   ci.Access
}

func (s NewFMR) String() string {
	return fmt.Sprintf("allocate FMR %d of %d pages and %d maps in PD %d with %s", s.As, s.Pages, s.Maps, s.PD,
		accessNames(s.Access))
}

func (s NewFMR) run(r *Run) *model.Violation {
	pd, ok := get[*pdObj](r, s.PD)
	if !ok || !pd.s.attr.Caps.Has(ci.CapFMR) {
		return nil
	}
	at := pd.s
	c := ci.FMRCreate{MaxPages: s.Pages, MaxMaps: s.Maps, Access: s.Access,
		PageShift: uint8(bits.TrailingZeros64(at.attr.PageSizes[0]))}
	d, err := pd.d.AllocFMR(c)
	m, v := pd.m.AllocFMR(c, err)
	if m != nil {
		r.put(s.As, &fmrObj{d: d, m: m, s: at, pd: s.PD, now: s.Now})
	}
	return v
}

// MapFMR maps an FMR to pages of the memory.
type MapFMR struct {
	FMR   int
	Pages []int
	At    int // page of the address space
	// Wrong is added to the address of the last page.
	Wrong uint64
}

func (s MapFMR) String() string {
	t := fmt.Sprintf("map FMR %d to pages %d at page %d", s.FMR, s.Pages, s.At)
	if s.Wrong != 0 {
		t += fmt.Sprintf(", the last one %#x bytes too high", s.Wrong)
	}
	return t
}

func (s MapFMR) run(r *Run) *model.Violation {
	o, ok := get[*fmrObj](r, s.FMR)
	if !ok {
		return nil
	}
	size := uint64(1) << o.m.Create.PageShift
	addrs, offs, v, ok := r.pageAddresses(o.s, s.Pages)
	if !ok {
		return v
	}
	if s.Wrong != 0 {
		addrs[len(addrs)-1] += s.Wrong
		offs[len(offs)-1] += s.Wrong
	}
	got, err := o.d.Map(addrs, uint64(s.At)*size)
	v = o.m.Map(o.s.mem, offs, uint64(s.At)*size, got, err)
	if v == nil && err == nil {
		x := &mrObj{m: o.m.Now, s: o.s, region: got}
		if r.objs[o.now] == nil {
			r.put(o.now, x)
		}
		r.objs[o.now] = x
	}
	return v
}

// Unmap unmaps FMRs of one PD.
type Unmap struct{ FMRs []int }

func (s Unmap) String() string { return fmt.Sprintf("unmap FMRs %d", s.FMRs) }

func (s Unmap) run(r *Run) *model.Violation {
	var list []ci.FMR
	var ms []*model.FMR
	var pd *pdObj
	for _, n := range s.FMRs {
		o, ok := get[*fmrObj](r, n)
		if !ok || pd != nil && o.m.PD != pd.m {
			return nil
		}
		pd, _ = get[*pdObj](r, o.pd)
		list, ms = append(list, o.d), append(ms, o.m)
	}
	if pd == nil {
		return nil
	}
	return pd.m.UnmapFMRs(ms, pd.d.UnmapFMRs(list))
}

// modifyMR modifies a region, mostly one without windows.
func (g *gen) modifyMR() Step {
	n := g.one(names(g.r, func(o *mrObj) bool {
		return o.d != nil && (!o.m.Dead || g.chance(5)) && (o.m.Users() == 0 || g.chance(10))
	}))
	o, ok := get[*mrObj](g.r, n)
	if !ok || n < firstName || !o.s.attr.Caps.Has(ci.CapModifyMR) {
		return nil
	}
	x := g.region(o.s.index)
	s := ModifyMR{MR: n, Was: g.name(), Set: ci.MRField(1 + g.IntN(7)), PD: x.PD, Off: x.Off, Len: x.Len,
		Access: x.Access}
	isWrong := g.chance(40)
	if isWrong { // what is right in it has no effect
		switch s.Set |= ci.MRFieldPD; g.IntN(3) {
		case 0:
			s.Set, s.Access = s.Set|ci.MRFieldAccess, ci.RemoteWrite
		case 1:
			s.Set, s.Len = s.Set|ci.MRFieldMemory, arenaSize+1
		default:
			s.PD = g.one(names(g.r, func(p *pdObj) bool { return p.m.Dead && p.s == o.s }))
		}
	}
	if s.Access = s.Access&^ci.ZeroBased | o.m.Access&ci.ZeroBased; o.m.IsVirtual() && g.chance(30) &&
		o.s.attr.Caps.Has(ci.CapZeroBased) {
		s.Access ^= ci.ZeroBased
	}
	list := []Step{s, g.reach(s.Was), g.reach(n)}
	if isWrong && s.PD != 0 { // a PD that it is not in
		s.PD = g.name()
		list = append([]Step{NewPD{s.PD, o.s.index}, s}, list[1:]...)
	}
	g.pend = append(g.pend, list[1:]...)
	return list[0]
}

// reach draws a request that uses a region, from a peer of its PD if there is one.
func (g *gen) reach(name int) Step {
	return Later{func(g *gen) Step {
		o, ok := get[*mrObj](g.r, name)
		if !ok {
			return nil
		}
		from := g.one(g.qps(func(x *qpObj) bool {
			p := g.obj(x.peer)
			n, _ := x.m.Waiting()
			return p != nil && n == 0 && x.m.Type == ci.RC && x.m.State == ci.QPRTS && p.s == o.s && p.m.PD == o.m.PD &&
				x.m.Answers() && p.m.RespRes() > 0
		}))
		x := g.obj(from)
		if x == nil || g.isInside(x) {
			return nil
		}
		n := min(int(o.region.Length), pick(g, 1, 8, 100, int(o.region.Length)), arenaSize/4)
		w := WR{Op: pick(g, ci.OpWrite, ci.OpRead), Flags: ci.SendSignaled, SGL: []Piece{g.zone(x, 0, n)}}
		w.Remote = Piece{MR: name, Off: pick(g, 0, int(o.region.Length)-n), Len: n}
		return Send{QP: from, WRs: []WR{w}}
	}}
}

// wrongPage draws what makes the address of a page one that is not aligned, or not mapped.
func wrongPage(g *gen) uint64 { return pick[uint64](g, 8, 1<<61) }

// fmr allocates an FMR, maps it, or unmaps some.
func (g *gen) fmr() Step {
	n := g.one(names(g.r, func(o *fmrObj) bool { return !o.m.Dead || g.chance(5) }))
	o, ok := get[*fmrObj](g.r, n)
	side := g.IntN(2)
	if attr := g.r.sides[side].attr; !ok || g.chance(25) {
		isFull := len(names(g.r, func(o *fmrObj) bool { return !o.m.Dead })) > 3
		if isFull || !attr.Caps.Has(ci.CapFMR) || attr.PageSizes[0] > arenaSize/4 {
			return nil
		}
		most := attr.MaxMapsPerFMR
		access := pick(g, ci.LocalWrite|allRemote, ci.LocalWrite|allRemote, ci.LocalWrite|ci.RemoteRead, ci.RemoteRead)
		return NewFMR{g.name(), g.name(), g.pd(side), pick(g, 1, 2, 4, 8), min(most, pick(g, 1, 2, 3, 12)), access}
	}
	if o.m.Now != nil && g.chance(40) {
		s := Unmap{[]int{n}}
		for _, k := range names(g.r, func(x *fmrObj) bool {
			return x.m.PD == o.m.PD && x != o && (!x.m.Dead || g.chance(10))
		}) {
			if g.chance(70) {
				s.FMRs = append(s.FMRs, k)
			}
		}
		g.Shuffle(len(s.FMRs), func(i, j int) { s.FMRs[i], s.FMRs[j] = s.FMRs[j], s.FMRs[i] })
		for _, k := range s.FMRs {
			x, _ := get[*fmrObj](g.r, k)
			g.pend = append(g.pend, g.reach(x.now))
		}
		return s
	}
	pages := int(arenaSize / o.s.attr.PageSizes[0])
	most := o.m.Create.MaxPages
	count := min(pages, pick(g, most, most, 1, most+g.IntN(10)/9))
	s := MapFMR{FMR: n, At: pick(g, 256, highPage) + g.IntN(64), Pages: g.Perm(pages)[:count]}
	g.pend = append(g.pend, g.reach(o.now), g.reach(o.now))
	if o.m.Now != nil && g.chance(20) { // which leaves what it is mapped to
		s.Wrong = wrongPage(g)
	}
	if g.chance(15) { // as often as it may be, and once more
		for range o.m.Create.MaxMaps {
			g.pend = append(g.pend, s)
		}
	}
	return s
}
