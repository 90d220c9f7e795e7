package alsuite

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/ci/ciwrap/faults"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// placed stands above the driver. It returns the addresses of the case for memory that is mapped for DMA, and numbers
// the regions for fast registration.
type placed struct {
	mu      sync.Mutex
	ranges  []ci.DMARange // for the next mapping; nil: those of the driver
	calls   []string      // destroys, in order
	regions []ci.MR
	pages   []int // of each region
	numMaps int
}

func (p *placed) over(h ci.HCA) ci.HCA {
	return ciwrap.Wrap(h, ciwrap.Layer{
		DMA: func(d ci.DMA, _ ci.Memory) ci.DMA {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.numMaps++
			return &placedDMA{ciwrap.DMA{DMA: d}, p, p.numMaps - 1, p.ranges}
		},
		MR: func(m ci.MR, o ciwrap.MROrigin) ci.MR {
			p.mu.Lock()
			defer p.mu.Unlock()
			q := &placedMR{ciwrap.MR{MR: m}, p, len(p.regions)}
			p.regions, p.pages = append(p.regions, q), append(p.pages, o.MaxPages)
			return q
		},
	})
}

func (p *placed) set(ranges []ci.DMARange) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ranges = ranges
}

func (p *placed) record(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, fmt.Sprintf(format, args...))
}

// take returns the destroys since the last take.
func (p *placed) take() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	calls := p.calls
	p.calls = nil
	return fmt.Sprintf("%q", calls)
}

// at returns the number of a region, -1 for none of the pool's.
func (p *placed) at(m ci.MR) int {
	q, ok := ci.As[*placedMR](m)
	if !ok || q.p != p {
		return -1
	}
	return q.n
}

type placedDMA struct {
	ciwrap.DMA
	p      *placed
	n      int
	ranges []ci.DMARange
}

func (d *placedDMA) Ranges() []ci.DMARange {
	if d.ranges != nil {
		return d.ranges
	}
	return d.DMA.Ranges()
}

func (d *placedDMA) Destroy() error {
	d.p.record("mapping %d", d.n)
	return d.DMA.Destroy()
}

type placedMR struct {
	ciwrap.MR
	p *placed
	n int
}

func (m *placedMR) Destroy() error {
	m.p.record("region %d", m.n)
	return m.MR.Destroy()
}

// newPlacedPool returns a pool of fast registration, of which the case places the memory and makes verbs fail.
func newPlacedPool(t *validate.T, cfg accesslayer.FastRegPoolConfig) (*stage, *placed, *faults.Injector,
	*accesslayer.FastRegPool) {
	p, inj := &placed{}, faults.New(t.Seed())
	s := newStageOver(t, accesslayer.Config{}, func(h ci.HCA) ci.HCA { return inj.Wrap(p.over(h)) })
	kit.OK(t, s.al.Register(s.hcas[0]), "Registrar.Register")
	ca := s.open(s.client, 0)
	pool, err := typed[*accesslayer.PD](t, ca.PD(), "PD").NewFastRegPool(cfg)
	kit.OK(t, err, "PD.NewFastRegPool")
	kit.Equal(t, "pages of the regions of the pool", fmt.Sprint(p.pages), fmt.Sprint(slices.Repeat([]int{cfg.MaxPages},
		cfg.Size)))
	return s, p, inj, pool
}

var CIPool06 = pools.Must("CI-Pool-06", "CI access layer", "accesslayer, FastRegPool.Map, FastRegMapping.Register",
	"A mapping of a pool for fast registration has the pages that contain the memory, in order, and the offset of "+
		"its first byte. Memory that has too many pages, no pages, or pieces that end inside a page is rejected, "+
		"and leaves the region free.")

var _ = pools.Case(validate.Case{
	ID:    "al.pool.fast-pages",
	Title: "the pages of memory that lies in one piece and in several",
	Needs: validate.Needs{Caps: ci.CapFastReg},
	Run:   fastPoolPages,
}, CIPool06)

func fastPoolPages(t *validate.T) {
	const most, page = 3, 1 << 12
	s, p, _, pool := newPlacedPool(t, accesslayer.FastRegPoolConfig{Size: 1, MaxPages: most})
	kit.True(t, slices.Contains(t.Attr().PageSizes, page), "CAAttr.PageSizes", "pages of 4 KiB", "%v",
		t.Attr().PageSizes)
	mem := ci.Bytes(make([]byte, 100))
	key := p.regions[0].Region().LKey
	for i, v := range kit.Variants(t, "", []struct {
		name   string
		ranges []ci.DMARange
		pages  []uint64 // nil: rejected
		offset uint32
	}{
		{"one byte", []ci.DMARange{{Addr: 0x10000, Size: 1}}, []uint64{0x10000}, 0},
		{"the last byte of a page", []ci.DMARange{{Addr: 0x10fff, Size: 1}}, []uint64{0x10000}, 0xfff},
		{"a whole page", []ci.DMARange{{Addr: 0x10000, Size: page}}, []uint64{0x10000}, 0},
		{"a page and a byte", []ci.DMARange{{Addr: 0x10000, Size: page + 1}}, []uint64{0x10000, 0x11000}, 0},
		{"two bytes in two pages", []ci.DMARange{{Addr: 0x10fff, Size: 2}}, []uint64{0x10000, 0x11000}, 0xfff},
		{"as many pages as possible", []ci.DMARange{{Addr: 0x10010, Size: 3*page - 0x10}},
			[]uint64{0x10000, 0x11000, 0x12000}, 0x10},
		{"one page more", []ci.DMARange{{Addr: 0x10010, Size: 3*page - 0xf}}, nil, 0},
		{"two pieces", []ci.DMARange{{Addr: 0x10ff0, Size: 0x10}, {Addr: 0x50000, Size: 0x20}},
			[]uint64{0x10000, 0x50000}, 0xff0},
		{"three pieces, not in order", []ci.DMARange{{Addr: 0x70800, Size: 0x800}, {Addr: 0x50000, Size: page},
			{Addr: 0x60000, Size: 1}}, []uint64{0x70000, 0x50000, 0x60000}, 0x800},
		{"pieces with one page more", []ci.DMARange{{Addr: 0x70800, Size: 0x800}, {Addr: 0x50000, Size: 2 * page},
			{Addr: 0x60000, Size: 1}}, nil, 0},
		{"a second piece that begins inside a page", []ci.DMARange{{Addr: 0x10000, Size: page},
			{Addr: 0x50010, Size: 0x20}}, nil, 0},
		{"a first piece that ends inside a page", []ci.DMARange{{Addr: 0x10000, Size: 0x800},
			{Addr: 0x50000, Size: 0x20}}, nil, 0},
		{"a second piece of three that ends inside a page", []ci.DMARange{{Addr: 0x10000, Size: page},
			{Addr: 0x50000, Size: 0x20}, {Addr: 0x60000, Size: 0x20}}, nil, 0},
		{"no piece", []ci.DMARange{}, nil, 0},
		{"one byte again", []ci.DMARange{{Addr: 0x90000, Size: 1}}, []uint64{0x90000}, 0},
	}) {
		p.set(v.ranges)
		access := ci.LocalWrite | ci.RemoteRead
		if i%2 == 1 {
			access |= ci.ZeroBased
		}
		m, err := pool.Map(mem, access)
		where := "FastRegPool.Map of " + v.name
		if v.pages == nil {
			kit.WantExactly(t, err, where, ci.InvalidParameter)
			kit.Equal(t, "destroys in "+where, p.take(), fmt.Sprintf(`["mapping %d"]`, i))
			continue
		}
		kit.OK(t, err, where)
		key = key&^0xff | (key+1)&0xff
		addr := v.ranges[0].Addr
		if i%2 == 1 {
			addr = 0
		}
		kit.Equal(t, "FastRegMapping.Region of "+v.name, m.Region, ci.Region{Addr: addr, Length: mem.Len(), LKey: key,
			RKey: key})
		wr := m.Register()
		f := wr.Ext.FastReg
		kit.Equal(t, "region of the request", p.at(f.MR), 0)
		f.MR = nil
		kit.Equal(t, "FastReg of the request for "+v.name, fmt.Sprintf("%+v", f), fmt.Sprintf("%+v", ci.FastReg{
			Pages: v.pages, PageShift: 12, Offset: v.offset, Length: mem.Len(), IOVA: addr, Key: key, Access: access}))
		kit.True(t, wr.Op == ci.OpFastReg && wr.ID == 0 && wr.Flags == 0, "request of "+where,
			"a fast registration with ID 0 and no flags", "%+v", wr)
		wr = m.Invalidate()
		kit.True(t, wr.Op == ci.OpLocalInv && wr.Inv == key && wr.ID == 0 && wr.Flags == ci.SendSignaled,
			"FastRegMapping.Invalidate", "a signaled invalidation of the key with ID 0", "%+v", wr)
		kit.Equal(t, "destroys in "+where, p.take(), `[]`)
		kit.OK(t, m.Unmap(), "FastRegMapping.Unmap")
		kit.Equal(t, "destroys in FastRegMapping.Unmap", p.take(), fmt.Sprintf(`["mapping %d"]`, i))
	}
	for _, a := range []ci.Access{ci.RemoteWrite, ci.RemoteAtomic, ci.RemoteRead | ci.RemoteAtomic} {
		_, err := pool.Map(mem, a)
		kit.WantExactly(t, err, "FastRegPool.Map with an access that needs LocalWrite", ci.InvalidPermission)
	}
	_, err := pool.Map(ci.Memory(nil), ci.LocalWrite)
	kit.WantExactly(t, err, "FastRegPool.Map of nil", ci.InvalidParameter)
	m, err := pool.Map(mem, ci.RemoteRead)
	kit.OK(t, err, "FastRegPool.Map with remote read alone")
	kit.OK(t, m.Unmap(), "FastRegMapping.Unmap")
	p.take()
	kit.OK(t, pool.Destroy(), "FastRegPool.Destroy")
	kit.Equal(t, "destroys in FastRegPool.Destroy", p.take(), `["region 0"]`)
	s.rec[0].clean(t)
}

var CIPool07 = pools.Must("CI-Pool-07", "CI access layer", "accesslayer, FastRegPool",
	"Regions of a pool for fast registration are used in the order of their return, each with 256 keys in turn. If "+
		"the driver fails, Map leaves the region free, and Unmap and Drop leave the mapping. A dropped region is "+
		"destroyed before its memory, and replaced when it is needed.")

var (
	_ = pools.Case(validate.Case{
		ID:    "al.pool.fast-order",
		Title: "order of regions, and more mappings than keys",
		Needs: validate.Needs{Caps: ci.CapFastReg},
		Run:   fastPoolOrder,
	}, CIPool07)
	_ = pools.Case(validate.Case{
		ID:    "al.pool.fast-fault",
		Title: "verbs of the driver fail below a pool of fast registration",
		Needs: validate.Needs{Caps: ci.CapFastReg},
		Run:   fastPoolFault,
	}, CIPool07)
	_ = pools.Case(validate.Case{
		ID:    "al.pool.fast-refused",
		Title: "the driver does not create all regions of a pool",
		Needs: validate.Needs{Caps: ci.CapFastReg},
		Run:   fastPoolRefused,
	}, CIPool07)
)

func fastPoolOrder(t *validate.T) {
	const size = 3
	_, p, _, pool := newPlacedPool(t, accesslayer.FastRegPoolConfig{Size: size, MaxPages: 2, PageShift: 12})
	mem := ci.Bytes(make([]byte, 8))
	keys := map[int]ci.Key{} // the last one, by region
	for i, r := range p.regions {
		keys[i] = r.Region().LKey
	}
	var held []*accesslayer.FastRegMapping
	free := []int{0, 1, 2}
	var used []int // by mapping held
	for range 3 * 256 {
		if len(held) == size || len(held) > 0 && t.Rand().IntN(3) == 0 {
			i := t.Rand().IntN(len(held))
			kit.OK(t, held[i].Unmap(), "FastRegMapping.Unmap")
			free = append(free, used[i])
			held, used = slices.Delete(held, i, i+1), slices.Delete(used, i, i+1)
			continue
		}
		m, err := pool.Map(mem, ci.LocalWrite)
		kit.OK(t, err, "FastRegPool.Map")
		n := p.at(m.Register().Ext.FastReg.MR)
		kit.Equal(t, "region of a mapping, in the order of their return", n, free[0])
		keys[n] = keys[n]&^0xff | (keys[n]+1)&0xff
		kit.Equal(t, "key of a mapping", m.RKey, keys[n])
		free = free[1:]
		held, used = append(held, m), append(used, n)
	}
}

func fastPoolFault(t *validate.T) {
	s, p, inj, pool := newPlacedPool(t, accesslayer.FastRegPoolConfig{Size: 1, MaxPages: 2})
	mem := ci.Bytes(make([]byte, 8))
	fails := errors.New("an error of the driver")
	once := func(verb string) func() {
		return inj.MustAdd(faults.Rule{Verb: verb, Err: fails, Count: 1}).Remove
	}
	is := func(err error, where string) {
		kit.True(t, errors.Is(err, fails), where, "the error of the driver", "%v", err)
		kit.Equal(t, "destroys after "+where, p.take(), `[]`)
	}
	mapped := func(where string) *accesslayer.FastRegMapping {
		m, err := pool.Map(mem, ci.LocalWrite)
		kit.OK(t, err, where)
		return m
	}
	full := func(where string) {
		_, err := pool.Map(mem, ci.LocalWrite)
		kit.WantExactly(t, err, where, ci.InsufficientResources)
	}
	restore := once("CA.MapDMA")
	_, err := pool.Map(mem, ci.LocalWrite)
	is(err, "FastRegPool.Map whose memory the driver does not map")
	restore()
	m := mapped("FastRegPool.Map after one that failed") // mapping 0
	restore = once("DMA.Destroy")
	is(m.Unmap(), "FastRegMapping.Unmap that the driver refuses")
	full("FastRegPool.Map after an Unmap that failed")
	restore()
	kit.OK(t, m.Unmap(), "FastRegMapping.Unmap when the driver does not refuse any more")
	kit.Equal(t, "destroys in FastRegMapping.Unmap", p.take(), `["mapping 0"]`)
	kit.WantExactly(t, m.Unmap(), "FastRegMapping.Unmap of a mapping that was returned", ci.InvalidHandle)
	kit.WantExactly(t, m.Drop(), "FastRegMapping.Drop of a mapping that was returned", ci.InvalidHandle)

	// Memory that was mapped before its pages were rejected is unmapped later, if that fails at first.
	p.set([]ci.DMARange{})
	restore = once("DMA.Destroy")
	_, err = pool.Map(mem, ci.LocalWrite) // mapping 1
	kit.WantExactly(t, err, "FastRegPool.Map without pages, and the driver does not unmap", ci.InvalidParameter)
	restore()
	p.set(nil)
	restore = once("DMA.Destroy")
	_, err = pool.Map(mem, ci.LocalWrite)
	is(err, "FastRegPool.Map after memory that the driver still does not unmap")
	restore()
	m = mapped("FastRegPool.Map after memory that the driver unmaps again") // mapping 2
	kit.Equal(t, "destroys in FastRegPool.Map", p.take(), `["mapping 1"]`)

	restore = once("MR.Destroy")
	is(m.Drop(), "FastRegMapping.Drop whose region the driver does not destroy")
	full("FastRegPool.Map after a Drop that failed")
	restore()
	restore = once("DMA.Destroy")
	err = m.Drop()
	kit.True(t, errors.Is(err, fails), "FastRegMapping.Drop whose memory the driver does not unmap",
		"the error of the driver", "%v", err)
	kit.Equal(t, "destroys in FastRegMapping.Drop whose memory the driver does not unmap", p.take(), `["region 0"]`)
	restore()
	kit.OK(t, m.Drop(), "FastRegMapping.Drop")
	kit.Equal(t, "destroys in FastRegMapping.Drop", p.take(), `["mapping 2"]`)
	kit.WantExactly(t, m.Drop(), "second FastRegMapping.Drop", ci.InvalidHandle)

	allocs := inj.Calls("PD.AllocFastRegMR")
	restore = once("PD.AllocFastRegMR")
	_, err = pool.Map(mem, ci.LocalWrite)
	is(err, "FastRegPool.Map whose region the driver does not create again")
	restore()
	m = mapped("FastRegPool.Map with a new region") // mapping 3
	kit.Equal(t, "calls of PD.AllocFastRegMR after Drop", inj.Calls("PD.AllocFastRegMR")-allocs, 2)
	kit.Equal(t, "region of a mapping after Drop", p.at(m.Register().Ext.FastReg.MR), 1)
	key := p.regions[1].Region().LKey
	kit.Equal(t, "key of a mapping after Drop", m.RKey, key&^0xff|(key+1)&0xff)
	kit.Equal(t, "pages of a region after Drop", p.pages[1], 2)

	// The pool is destroyed with the mapping, in spite of the driver.
	restore = once("MR.Destroy")
	restoreMapping := once("DMA.Destroy")
	kit.OK(t, pool.Destroy(), "FastRegPool.Destroy whose driver refuses both at first")
	restore()
	restoreMapping()
	kit.Equal(t, "destroys in FastRegPool.Destroy", p.take(), `["region 1" "mapping 3"]`)
	for where, f := range map[string]func() error{
		"FastRegMapping.Unmap": m.Unmap, "FastRegMapping.Drop": m.Drop,
		"FastRegPool.Map": func() error { _, err := pool.Map(mem, ci.LocalWrite); return err },
	} {
		err := f()
		kit.WantExactly(t, err, where+" of a destroyed pool", ci.InvalidHandle)
		kit.True(t, errors.Is(err, accesslayer.ErrClosed), where+" of a destroyed pool", "ErrClosed", "%v", err)
	}
	kit.OK(t, s.al.Deregister(s.guid(0)), "Registrar.Deregister")
	s.rec[0].shut(t)
}

func fastPoolRefused(t *validate.T) {
	s, p, inj, pool := newPlacedPool(t, accesslayer.FastRegPoolConfig{Size: 2, MaxPages: 1})
	kit.OK(t, pool.Destroy(), "FastRegPool.Destroy")
	kit.Equal(t, "destroys in FastRegPool.Destroy", p.take(), `["region 0" "region 1"]`)
	ca := s.open(s.client, 0)
	for _, v := range kit.Variants(t, "", []struct {
		name              string
		made, numRefusals uint64
	}{
		{"the first", 0, 0}, {"the second", 1, 0}, {"the third", 2, 0}, {"the second, and refuses to destroy", 1, 1},
		{"the third, and refuses to destroy twice", 2, 2},
	}) {
		o, err := ca.AllocatePD(ci.PDNormal)
		kit.OK(t, err, "CA.AllocatePD")
		pd := typed[*accesslayer.PD](t, o, "PD")
		fails := errors.New("an error of PD.AllocFastRegMR")
		before := inj.Calls("MR.Destroy")
		alloc := inj.MustAdd(faults.Rule{Verb: "PD.AllocFastRegMR", Err: fails, Skip: v.made, Count: 1})
		destroy := inj.MustAdd(faults.Rule{Verb: "MR.Destroy", Status: ci.ErrorStatus, Count: max(1, v.numRefusals)})
		if v.numRefusals == 0 {
			destroy.Remove()
		}
		pool, err := pd.NewFastRegPool(accesslayer.FastRegPoolConfig{Size: 3, MaxPages: 1})
		where := "PD.NewFastRegPool whose driver does not create " + v.name
		kit.True(t, errors.Is(err, fails) && pool == nil, where, "the error of the driver", "%v, pool %v", err, pool)
		kit.OK(t, pd.Destroy(), "PD.Destroy after "+where)
		kit.Equal(t, "calls of MR.Destroy after "+where, inj.Calls("MR.Destroy")-before, v.made+v.numRefusals)
		alloc.Remove()
		destroy.Remove()
	}
	kit.OK(t, s.al.Deregister(s.guid(0)), "Registrar.Deregister")
	s.rec[0].shut(t)
}
