package alsuite

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"sync"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/ci/ciwrap/faults"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// fmrTrace stands above the driver. It records the verbs of FMRs, which it numbers in the order of their creation.
type fmrTrace struct {
	mu      sync.Mutex
	calls   []string
	number  map[ci.FMR]int
	created []ci.FMRCreate
	regions map[int]ci.Region // of the last Map
}

func newFMRTrace() *fmrTrace {
	return &fmrTrace{number: map[ci.FMR]int{}, regions: map[int]ci.Region{}}
}

func (r *fmrTrace) over(h ci.HCA) ci.HCA {
	return ciwrap.Wrap(h, ciwrap.Layer{
		PD: func(p ci.PD, _ ci.PDType) ci.PD { return tracedPD{ciwrap.PD{PD: p}, r} },
		FMR: func(f ci.FMR, c ci.FMRCreate) ci.FMR {
			r.mu.Lock()
			defer r.mu.Unlock()
			t := &tracedFMR{ciwrap.FMR{FMR: f}, r, len(r.created)}
			r.number[t] = t.n
			r.created = append(r.created, c)
			return t
		},
	})
}

func (r *fmrTrace) record(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, fmt.Sprintf(format, args...))
}

// take returns the calls since the last take.
func (r *fmrTrace) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := r.calls
	r.calls = nil
	return calls
}

// region returns the result of the last Map of an FMR.
func (r *fmrTrace) region(n int) ci.Region {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.regions[n]
}

type tracedPD struct {
	ciwrap.PD
	r *fmrTrace
}

func (p tracedPD) UnmapFMRs(fmrs []ci.FMR) error {
	p.r.mu.Lock()
	numbers := make([]int, len(fmrs))
	for i, f := range fmrs {
		numbers[i] = p.r.number[f]
	}
	p.r.mu.Unlock()
	p.r.record("unmap %v", numbers)
	return p.PD.UnmapFMRs(fmrs)
}

type tracedFMR struct {
	ciwrap.FMR
	r *fmrTrace
	n int
}

func (f *tracedFMR) Map(pages []uint64, iova uint64) (ci.Region, error) {
	f.r.record("map %d to %x at %#x", f.n, pages, iova)
	region, err := f.FMR.Map(pages, iova)
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	if err == nil {
		f.r.regions[f.n] = region
	}
	return region, err
}

func (f *tracedFMR) Destroy() error {
	f.r.record("destroy %d", f.n)
	return f.FMR.Destroy()
}

// fmrModel is what the documentation says of a pool: the FMRs that it maps, keeps and unmaps, and when.
type fmrModel struct {
	maxMaps, watermark int
	hasCache           bool
	free, dirty        []int          // oldest first
	maps, users        []int          // by FMR
	content            []string       // by FMR: pages and address
	cache              map[string]int // FMR by content
}

func newFMRModel(size, maxMaps, watermark int, hasCache bool) *fmrModel {
	m := &fmrModel{maxMaps: maxMaps, watermark: watermark, hasCache: hasCache, maps: make([]int, size),
		users: make([]int, size), content: make([]string, size), cache: map[string]int{}}
	for i := range size {
		m.free = append(m.free, i)
	}
	return m
}

func (m *fmrModel) forget(f int) {
	if at, ok := m.cache[m.content[f]]; ok && at == f {
		delete(m.cache, m.content[f])
	}
}

// take takes the FMR for a mapping. It returns -1 if there is none, and whether the driver maps it.
func (m *fmrModel) take(content string) (f int, isMapped bool) {
	if at, ok := m.cache[content]; ok && m.hasCache {
		m.free = slices.DeleteFunc(m.free, func(f int) bool { return f == at })
		m.users[at]++
		return at, false
	}
	if len(m.free) == 0 {
		return -1, false
	}
	m.forget(m.free[0])
	return m.free[0], true
}

// mapped ends a Map of the driver.
func (m *fmrModel) mapped(f int, content string) {
	m.free = m.free[1:]
	m.content[f] = content
	m.users[f] = 1
	m.maps[f]++
	m.cache[content] = f
}

// give returns a mapping, and reports whether a flush begins.
func (m *fmrModel) give(f int) bool {
	m.users[f]--
	switch {
	case m.users[f] > 0:
	case m.maps[f] < m.maxMaps:
		m.free = append(m.free, f)
	default:
		m.forget(f)
		m.dirty = append(m.dirty, f)
		return len(m.dirty) >= m.watermark
	}
	return false
}

// batch returns the FMRs that a flush unmaps.
func (m *fmrModel) batch(idle bool) []int {
	batch := slices.Clone(m.dirty)
	for _, f := range m.free {
		if idle && m.maps[f] > 0 {
			batch = append(batch, f)
			m.forget(f)
		}
	}
	return batch
}

// flushed ends a flush.
func (m *fmrModel) flushed(batch []int, err error) {
	m.free = slices.DeleteFunc(m.free, func(f int) bool { return slices.Contains(batch, f) })
	m.dirty = nil
	if err != nil {
		m.dirty = batch
		return
	}
	for _, f := range batch {
		m.maps[f] = 0
		m.free = append(m.free, f)
	}
}

var CIPool04 = pools.Must("CI-Pool-04", "CI access layer", "accesslayer, FMRPool",
	"A pool of FMRs calls the verbs of the driver that its description calls for and no others, in every order of "+
		"mappings, returns and flushes, also if verbs of the driver fail. Its FMRs are used in the order of their "+
		"return.")

var _ = pools.Case(validate.Case{
	ID:    "al.pool.fmr-model",
	Title: "compare pools of FMRs with a model, in random sequences of calls",
	Needs: validate.Needs{Caps: ci.CapFMR},
	Run:   fmrPoolModel,
}, CIPool04)

func fmrPoolModel(t *validate.T) {
	r, inj := newFMRTrace(), faults.New(t.Seed())
	s := newStageOver(t, accesslayer.Config{}, func(h ci.HCA) ci.HCA { return r.over(inj.Wrap(h)) })
	kit.OK(t, s.al.Register(s.hcas[0]), "Registrar.Register")
	ca := s.open(s.client, 0)
	pd := typed[*accesslayer.PD](t, ca.PD(), "PD")
	page := slices.Min(ca.Attr.PageSizes)
	pages := kit.PageList(ca.DMA(kit.Pages(4*int(page), int(page))).Ranges(), page)
	most := ca.Attr.MaxMapsPerFMR
	for _, v := range kit.Variants(t, "", []struct {
		name                     string
		size, maxMaps, watermark int // as configured; 0: the default
		isCached                 bool
	}{
		{"one FMR", 1, 1, 0, false},
		{"one FMR that can be mapped twice", 1, min(2, most), 0, true},
		{"two FMRs", 2, 1, 2, false},
		{"three FMRs with a cache", 3, min(2, most), 1, true},
		{"four FMRs with a cache", 4, min(3, most), 4, true},
		{"eight FMRs", 8, 1, 0, false},
		{"twelve FMRs with a cache", 12, 1, 0, true},
		{"five FMRs and the limit of the HCA", 5, 0, 3, true},
	}) {
		flushes := make(chan error, 8)
		cfg := accesslayer.FMRPoolConfig{Size: v.size, DirtyWatermark: v.watermark, Cache: v.isCached,
			FMRCreate: ci.FMRCreate{MaxPages: 3, MaxMaps: v.maxMaps, PageShift: uint8(bits.TrailingZeros64(page)),
				Access: ci.LocalWrite},
			OnFlush: func(err error) { flushes <- err }}
		first := len(r.created)
		pool, err := pd.NewFMRPool(cfg)
		kit.OK(t, err, "PD.NewFMRPool")
		want := cfg.FMRCreate
		if want.MaxMaps == 0 {
			want.MaxMaps = max(1, most)
		}
		for _, c := range r.created[first:] {
			kit.Equal(t, "FMRCreate of an FMR of the pool", c, want)
		}
		kit.Equal(t, "FMRs of the pool", len(r.created)-first, v.size)
		watermark := v.watermark
		if watermark == 0 {
			watermark = max(1, v.size/4)
		}
		x := &fmrRun{t: t, r: r, inj: inj, pool: pool, first: first, pages: pages, page: page, flushes: flushes,
			m: newFMRModel(v.size, want.MaxMaps, watermark, v.isCached)}
		for range 250 {
			x.step()
		}
		x.end()
	}
	s.rec[0].clean(t)
}

// fmrRun is a sequence of calls of one pool.
type fmrRun struct {
	t       *validate.T
	r       *fmrTrace
	inj     *faults.Injector
	pool    *accesslayer.FMRPool
	m       *fmrModel
	first   int // number of its first FMR
	pages   []uint64
	page    uint64
	flushes chan error
	held    []*accesslayer.FMRMapping
	fmrs    []int // of held
}

// verbs expects the calls of the driver since the last comparison.
func (x *fmrRun) verbs(where string, want ...string) {
	kit.Equal(x.t, "verbs of the driver in "+where, fmt.Sprintf("%q", x.r.take()), fmt.Sprintf("%q", want))
}

// failing makes a verb of the driver fail once, in one of some calls. restore ends it.
func (x *fmrRun) failing(verb string) (restore func(), err error) {
	if x.t.Rand().IntN(5) > 0 {
		return func() {}, nil
	}
	err = fmt.Errorf("an error of %s", verb)
	return x.inj.MustAdd(faults.Rule{Verb: verb, Err: err}).Remove, err
}

// flush expects one flush, and returns what the driver is asked for.
func (x *fmrRun) flush(idle bool, want error, begin func() error) {
	batch := x.m.batch(idle)
	if len(batch) == 0 {
		want = nil
	}
	where := fmt.Sprintf("a flush of %v", batch)
	got := begin()
	if idle {
		kit.True(x.t, errors.Is(got, want), "FMRPool.Flush in "+where, fmt.Sprint(want), "%v", got)
	}
	got = expect(x.t, x.flushes, "FMRPoolConfig.OnFlush")
	kit.True(x.t, errors.Is(got, want), "argument of FMRPoolConfig.OnFlush in "+where, fmt.Sprint(want), "%v", got)
	if len(batch) == 0 {
		x.verbs(where)
	} else {
		numbers := make([]int, len(batch))
		for i, f := range batch {
			numbers[i] = x.first + f
		}
		x.verbs(where, fmt.Sprintf("unmap %v", numbers))
	}
	x.m.flushed(batch, want)
}

func (x *fmrRun) step() {
	t, rnd := x.t, x.t.Rand()
	switch n := rnd.IntN(20); {
	case n == 0:
		restore, err := x.failing("PD.UnmapFMRs")
		x.flush(true, err, x.pool.Flush)
		restore()
	case n < 9 && len(x.held) > 0:
		i := rnd.IntN(len(x.held))
		mapping, f := x.held[i], x.fmrs[i]
		x.held, x.fmrs = slices.Delete(x.held, i, i+1), slices.Delete(x.fmrs, i, i+1)
		restore, err := x.failing("PD.UnmapFMRs")
		unmap := func() error {
			kit.OK(t, mapping.Unmap(), "FMRMapping.Unmap")
			return nil
		}
		if x.m.give(f) {
			x.flush(false, err, unmap)
		} else {
			_ = unmap()
			x.verbs("FMRMapping.Unmap")
		}
		restore()
		kit.WantExactly(t, mapping.Unmap(), "second FMRMapping.Unmap", ci.InvalidHandle)
	default:
		x.mapping()
	}
	kit.Equal(t, "flushes that nothing asks for", len(x.flushes), 0)
}

// mapping maps some of few lists of pages, so that the cache has some of them.
func (x *fmrRun) mapping() {
	t, rnd := x.t, x.t.Rand()
	lists := [][]int{{0}, {1}, {2}, {0, 1}, {1, 0}, {2, 1}, {3, 2, 1}, {0, 2, 1}}
	var pages []uint64
	for _, i := range lists[rnd.IntN(len(lists))] {
		pages = append(pages, x.pages[i])
	}
	iova := uint64(rnd.IntN(2)) * x.page
	content := fmt.Sprintf("%x at %#x", pages, iova)
	where := "FMRPool.Map of " + content
	f, isMapped := x.m.take(content)
	if f < 0 {
		full := func() error {
			_, err := x.pool.Map(pages, iova)
			kit.WantExactly(t, err, where+" without a free FMR", ci.InsufficientResources)
			return nil
		}
		if len(x.m.dirty) == 0 {
			_ = full()
			x.verbs(where)
			return
		}
		restore, err := x.failing("PD.UnmapFMRs")
		x.flush(false, err, full)
		restore()
		return
	}
	var fails error
	restore := func() {}
	if isMapped {
		restore, fails = x.failing("FMR.Map")
	}
	mapping, err := x.pool.Map(pages, iova)
	restore()
	kit.True(t, errors.Is(err, fails), where, fmt.Sprint(fails), "%v", err)
	if !isMapped {
		x.verbs(where + ", which the cache has")
	} else {
		x.verbs(where, fmt.Sprintf("map %d to %s", x.first+f, content))
	}
	if fails != nil {
		kit.True(t, mapping == nil, where+", which fails", "no mapping", "one")
		return
	}
	if isMapped {
		x.m.mapped(f, content)
	}
	kit.Equal(t, "FMRMapping.Region of "+where, mapping.Region, x.r.region(x.first+f))
	x.held, x.fmrs = append(x.held, mapping), append(x.fmrs, f)
}

// end destroys the pool, whose driver refuses some verbs once.
func (x *fmrRun) end() {
	t := x.t
	var want []string
	var mapped []int
	for f, n := range x.m.maps {
		if n > 0 {
			mapped = append(mapped, x.first+f)
		}
	}
	if len(mapped) > 0 { // the first call is refused
		want = slices.Repeat([]string{fmt.Sprintf("unmap %v", mapped)}, 2)
	}
	for f := range x.m.maps {
		want = append(want, fmt.Sprintf("destroy %d", x.first+f))
	}
	unmap := x.inj.MustAdd(faults.Rule{Verb: "PD.UnmapFMRs", Status: ci.ErrorStatus, Count: 1})
	destroy := x.inj.MustAdd(faults.Rule{Verb: "FMR.Destroy", Status: ci.ErrorStatus, Skip: 1, Count: 1})
	before := x.inj.Calls("FMR.Destroy")
	kit.OK(t, x.pool.Destroy(), "FMRPool.Destroy")
	unmap.Remove()
	destroy.Remove()
	kit.Equal(t, "calls of FMR.Destroy by FMRPool.Destroy", x.inj.Calls("FMR.Destroy")-before,
		uint64(len(x.m.maps))+destroy.Struck())
	got := x.r.take()
	if i := slices.IndexFunc(got, func(c string) bool { return strings.HasPrefix(c, "destroy") }); i >= 0 {
		slices.Sort(got[i:]) // in any order
		got = slices.Concat(got[:i], slices.Compact(got[i:]))
	}
	slices.Sort(want[len(want)-len(x.m.maps):])
	kit.Equal(t, "verbs of FMRPool.Destroy", fmt.Sprintf("%q", got), fmt.Sprintf("%q", want))
	for _, m := range x.held {
		kit.WantExactly(t, m.Unmap(), "FMRMapping.Unmap of a destroyed pool", ci.InvalidHandle)
	}
	x.verbs("calls of a destroyed pool")
}

var CIPool05 = pools.Must("CI-Pool-05", "CI access layer", "accesslayer, PD.NewFMRPool",
	"If the driver does not create one of the FMRs of a pool, NewFMRPool returns its error and destroys the "+
		"others, also if the driver refuses that at first.")

var _ = pools.Case(validate.Case{
	ID:    "al.pool.fmr-refused",
	Title: "the driver does not create all FMRs of a pool",
	Needs: validate.Needs{Caps: ci.CapFMR},
	Run:   fmrPoolRefused,
}, CIPool05)

func fmrPoolRefused(t *validate.T) {
	inj := faults.New(t.Seed())
	s := newStageOver(t, accesslayer.Config{}, inj.Wrap)
	kit.OK(t, s.al.Register(s.hcas[0]), "Registrar.Register")
	ca := s.open(s.client, 0)
	const size = 3
	cfg := accesslayer.FMRPoolConfig{Size: size, FMRCreate: ci.FMRCreate{MaxPages: 1,
		PageShift: uint8(bits.TrailingZeros64(slices.Min(ca.Attr.PageSizes)))}}
	for _, v := range kit.Variants(t, "", []struct {
		name              string
		made, numRefusals uint64
	}{
		{"the first", 0, 0}, {"the second", 1, 0}, {"the third", 2, 0}, {"the second, and refuses to destroy", 1, 1},
		{"the third, and refuses to destroy twice", 2, 2},
	}) {
		p, err := ca.AllocatePD(ci.PDNormal)
		kit.OK(t, err, "CA.AllocatePD")
		pd := typed[*accesslayer.PD](t, p, "PD")
		fails := errors.New("an error of PD.AllocFMR")
		before := inj.Calls("FMR.Destroy")
		rules := []*faults.Fault{inj.MustAdd(faults.Rule{Verb: "PD.AllocFMR", Err: fails, Skip: v.made, Count: 1})}
		if v.numRefusals > 0 {
			rules = append(rules, inj.MustAdd(faults.Rule{Verb: "FMR.Destroy", Status: ci.ErrorStatus,
				Count: v.numRefusals}))
		}
		pool, err := pd.NewFMRPool(cfg)
		where := "PD.NewFMRPool whose driver does not create " + v.name
		kit.True(t, errors.Is(err, fails) && pool == nil, where, "the error of the driver", "%v, pool %v", err, pool)
		kit.OK(t, pd.Destroy(), "PD.Destroy after "+where)
		kit.Equal(t, "calls of FMR.Destroy after "+where, inj.Calls("FMR.Destroy")-before, v.made+v.numRefusals)
		for _, r := range rules {
			r.Remove()
		}
	}
	kit.OK(t, s.al.Deregister(s.guid(0)), "Registrar.Deregister")
	s.rec[0].shut(t)
}
