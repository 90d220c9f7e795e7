package cisuite

import (
	"fmt"
	"math"
	"slices"
	"time"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// countable is a kind of object with a limit.
type countable struct {
	name  string
	needs ci.Caps
	any   bool // whether one of needs is enough
	limit func(*ci.CAAttr) int
	used  int // number of objects that the stage uses
	full  int // largest limit that cases fill; 0 means fullTable
	make  func(s *orderStage) (ci.Object, error)
}

const (
	// fullTable is the largest limit that a case fills. Of larger tables it uses partTable entries.
	fullTable = 4096
	partTable = 1024
	// bookTable is fullTable for objects that need only an entry in a table and no device memory.
	bookTable = 1 << 15
	// exhaustiveTime is the time limit of a case that fills tables of any size.
	exhaustiveTime = 15 * time.Minute
)

// goesTo returns the largest limit that cases fill.
func (c *countable) goesTo(t *validate.T) int {
	if t.Profile().Exhaustive {
		return math.MaxInt
	}
	return max(c.full, fullTable)
}

// limitsCases create as many objects as the CA permits, and one more. (SAS abstract; IBTA 11.2.1.)
var limitsCases = &validate.Area{}

var ciLimits01 = limitsCases.Must("CI-Limits-01", "IBTA 11.2.1", "create verbs; CAAttr",
	"A create verb beyond the limit of its kind fails with InsufficientResources and does not change existing "+
		"objects.")

var _ = validate.Matrix(limitsCases, countables, func(c countable) (validate.Case, []*req.Requirement) {
	return c.at("", "as many objects as the limit: ", limitsCase), []*req.Requirement{req.SAS0_05, ciLimits01}
})

var _ = validate.Matrix(limitsCases, countables, func(c countable) (validate.Case, []*req.Requirement) {
	return c.at(".beyond", "one object more than the limit: ", beyondCase), []*req.Requirement{ciLimits01}
})

// at returns a case that runs f with c.
func (c countable) at(suffix, title string, f func(*validate.T, countable)) validate.Case {
	k := validate.Case{
		ID:         "limits." + c.name + suffix,
		Title:      title + c.name,
		Feature:    validate.FeatureCore,
		Needs:      validate.Needs{Caps: c.needs},
		Exhaustive: exhaustiveTime,
		Run:        func(t *validate.T) { f(t, c) },
	}
	if c.any {
		k.Needs.Caps, k.Needs.AnyCaps = 0, c.needs
	}
	return k
}

var countables = []countable{
	{
		name:  "pd",
		used:  1,
		full:  bookTable,
		limit: func(a *ci.CAAttr) int { return a.MaxPDs },
		make:  func(s *orderStage) (ci.Object, error) { return s.ca.AllocatePD(ci.PDNormal) },
	},
	{name: "av", needs: ci.CapAV, limit: func(a *ci.CAAttr) int { return a.MaxAVs },
		make: func(s *orderStage) (ci.Object, error) { return s.pd.CreateAV(s.ca.AddressOf(s.ca)) }},
	{name: "cq", used: 1, limit: func(a *ci.CAAttr) int { return a.MaxCQs },
		make: func(s *orderStage) (ci.Object, error) { return s.pd.CreateCQ(ci.CQCreate{Size: 1}) }},
	{name: "srq", needs: ci.CapSRQ, limit: func(a *ci.CAAttr) int { return a.MaxSRQs },
		make: func(s *orderStage) (ci.Object, error) {
			return s.pd.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 1, MaxSGE: 1}})
		}},
	{name: "qp", limit: func(a *ci.CAAttr) int { return a.MaxQPs }, make: func(s *orderStage) (ci.Object, error) {
		return s.pd.CreateQP(ci.QPCreate{
			QPCaps: ci.QPCaps{SendDepth: 1, RecvDepth: 1, SendSGE: 1, RecvSGE: 1},
			SendCQ: s.cq.CQ,
			RecvCQ: s.cq.CQ,
		})
	}},
	{name: "mr", limit: func(a *ci.CAAttr) int { return a.MaxMRs }, make: func(s *orderStage) (ci.Object, error) {
		return s.pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(make([]byte, 64)), Access: kit.AllAccess})
	}},
	{name: "mw", needs: ci.CapMW1 | ci.CapMW2, any: true, limit: func(a *ci.CAAttr) int { return a.MaxMWs },
		make: func(s *orderStage) (ci.Object, error) {
			return s.pd.CreateMW(ci.MWCreate{Type: windowTypes(s.t)[0]})
		}},
	{name: "fmr", needs: ci.CapFMR, limit: func(a *ci.CAAttr) int { return a.MaxFMRs },
		make: func(s *orderStage) (ci.Object, error) {
			return s.pd.AllocFMR(ci.FMRCreate{MaxPages: 1, MaxMaps: 1, PageShift: pageShift(s.ca.Attr)})
		}},
}

// fill creates n objects.
func (c *countable) fill(s *orderStage, n int) []ci.Object {
	out := make([]ci.Object, 0, n)
	for range n {
		o, err := c.make(s)
		kit.OK(s.t, err,
			fmt.Sprintf("creation of %s %d of %d, with a limit of %d and %d other objects in use", c.name, len(out)+1,
				n, c.limit(s.ca.Attr), c.used))
		out = append(out, kit.Own(s.t, o, c.name))
	}
	return out
}

func destroyAll(t *validate.T, objs []ci.Object, what string) {
	for i, o := range objs {
		kit.OK(t, o.Destroy(), fmt.Sprintf("destroy of %s %d of %d", what, i+1, len(objs)))
	}
}

func (c *countable) stage(t *validate.T) *orderStage {
	ca := kit.Open(t)
	s := &orderStage{t: t, ca: ca, pd: ca.PD()}
	s.cq = ca.CQ(s.pd, 8)
	return s
}

func limitsCase(t *validate.T, c countable) {
	s := c.stage(t)
	n := c.limit(s.ca.Attr) - c.used
	if n > c.goesTo(t) {
		t.Note("only %d of %d objects are created", partTable, n)
		n = partTable
	}
	for range 2 {
		destroyAll(t, c.fill(s, n), c.name)
	}
}

func beyondCase(t *validate.T, c countable) {
	if n := c.limit(t.Attr()); n > c.goesTo(t) {
		t.Skip("the limit of %d objects is too high for this profile: --profile exhaustive fills it", n)
	}
	s := c.stage(t)
	n := c.limit(s.ca.Attr) - c.used
	for range 2 {
		all := c.fill(s, n)
		o, err := c.make(s)
		what := fmt.Sprintf("creation of %s %d, with a limit of %d and %d other objects in use", c.name, n+1,
			c.limit(s.ca.Attr), c.used)
		if err == nil {
			t.Note("%s succeeds", what)
			kit.Destroy(t, kit.Own(t, o, c.name), c.name)
		} else {
			kit.WantRefused(t, o, err, what, ci.InsufficientResources)
		}
		destroyAll(t, all, c.name)
	}
}

var _ = limitsCases.Of(validate.FeatureCore).Needing(
	validate.Needs{AnyCaps: ci.CapSharedMR | ci.CapPhysicalMR}).With(validate.Case{Exhaustive: exhaustiveTime}).Add(
	"limits.mr.kinds", "shared and physical regions beyond the limit of regions", mrKindsBeyond, ciLimits01)

// mrKindsBeyond creates regions beyond the limit over memory that is in use. It is free again when all others are
// destroyed.
func mrKindsBeyond(t *validate.T) {
	mr := countables[slices.IndexFunc(countables, func(c countable) bool { return c.name == "mr" })]
	if n := mr.limit(t.Attr()); n > mr.goesTo(t) {
		t.Skip("the limit of %d regions is too high for this profile: --profile exhaustive fills it", n)
	}
	s := mr.stage(t)
	all := mr.fill(s, mr.limit(s.ca.Attr))
	source := all[0].(ci.MR)
	if t.Claims().Has(ci.CapSharedMR) {
		o, err := s.pd.RegisterSMR(source, 0, ci.LocalWrite)
		wantBeyond(t, o, err, "PD.RegisterSMR")
	}
	if t.Claims().Has(ci.CapPhysicalMR) {
		page := smallPage(s.ca.Attr)
		d := s.ca.DMA(kit.Pages(int(page), int(page)))
		o, err := s.pd.RegisterPMR(ci.PMRCreate{Ranges: d.Ranges(), PageSize: page, Length: page})
		wantBeyond(t, o, err, "PD.RegisterPMR")
		kit.Destroy(t, d, "DMA after a rejected PD.RegisterPMR")
	}
	destroyAll(t, all, "MR")
}

// wantBeyond expects that a create verb beyond the limit has failed.
func wantBeyond(t *validate.T, o ci.MR, err error, verb string) {
	what := verb + " with as many regions as the limit"
	if err == nil {
		t.Note("%s succeeds", what)
		kit.Destroy(t, kit.Own(t, o, "MR"), "MR")
		return
	}
	kit.WantRefused(t, o, err, what, ci.InsufficientResources)
}
