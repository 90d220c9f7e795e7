package cisuite

import (
	"reflect"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// nilCases are the cases of nil arguments. In Go a nil pointer that is assigned to an interface is an interface value
// other than nil and usually panics when it is used. Consumers make this mistake easily, and a driver must reject it.
var nilCases = &validate.Area{}

var ciNil01 = nilCases.Must("CI-Nil-01", "CI Object", "verbs that take objects",
	"A nil object, or a nil pointer in an interface, is rejected with the handle status of its kind or "+
		"InvalidParameter, and nothing changes.")

var ciNil02 = nilCases.Must("CI-Nil-02", "CI Memory", "ci_register_mr (35)",
	"A nil pointer in a Memory interface is rejected with InvalidParameter.")

// nilArgument is a verb with a nil argument.
type nilArgument struct {
	name, title string
	caps        ci.Caps
	feature     validate.Feature
	run         func(*validate.T)
	rule        *req.Requirement
}

var nilArguments = []nilArgument{
	{"create", "a QP without CQs, or with a nil pointer as SRQ", 0, validate.FeatureQP, nilCreate, ciNil01},
	{"memory", "regions with a nil pointer as memory", 0, validate.FeatureMR, nilMemory, ciNil02},
	{"send", "datagrams with a nil address vector", ci.CapUD | ci.CapAV, validate.FeatureUD, nilSend, ciNil01},
	{"bind", "binds of a nil window or to a nil region", ci.CapMW1, validate.FeatureMW, nilBind, ciNil01},
	{"fast", "fast registration of a nil region", ci.CapFastReg, validate.FeatureMROpt, nilFast, ciNil01},
	{"shared", "a shared region of a nil region", ci.CapSharedMR, validate.FeatureMROpt, nilShared, ciNil01},
	{"modify", "modify a region to a nil PD", ci.CapModifyMR, validate.FeatureMROpt, nilModify, ciNil01},
	{"fmr", "unmap a list with a nil FMR", ci.CapFMR, validate.FeatureMROpt, nilFMR, ciNil01},
	{"dma", "map a nil pointer for DMA", ci.CapFastReg, validate.FeatureMROpt, nilDMA, ciNil02},
}

var _ = validate.Matrix(nilCases, nilArguments, func(n nilArgument) (validate.Case, []*req.Requirement) {
	return validate.Case{
		ID:      "nil." + n.name,
		Title:   n.title,
		Feature: n.feature,
		Needs:   validate.Needs{Caps: n.caps},
		Run:     n.run,
	}, []*req.Requirement{n.rule}
})

// nothing is a nil argument.
type nothing[T any] struct {
	what string
	o    T
}

// nothings returns nil, a nil pointer to a wrapper, whose Unwrap panics, and a nil pointer of the driver's own type, if
// its objects are pointers. some is an object of the driver.
func nothings[T any](wrapper, some T) []nothing[T] {
	var none T
	list := []nothing[T]{{"nil", none}}
	return append(list, pointers(wrapper, some)...)
}

// pointers returns the elements of nothings that are not nil.
func pointers[T any](wrapper, some T) []nothing[T] {
	list := []nothing[T]{{"a nil pointer to a wrapper", wrapper}}
	if typ := reflect.TypeOf(some); typ.Kind() == reflect.Pointer {
		list = append(list, nothing[T]{"a nil pointer of the driver's type", reflect.Zero(typ).Interface().(T)})
	}
	return list
}

func nilCreate(t *validate.T) {
	ca := kit.Open(t)
	pd := ca.PD()
	cq := ca.CQ(pd, 16)
	refused := func(what string, want ci.Status, f func(*ci.QPCreate)) {
		c := small(ci.RC, cq)
		f(&c)
		qp, err := pd.CreateQP(c)
		kit.WantRefused(t, qp, err, "PD.CreateQP with "+what, want, ci.InvalidParameter)
	}
	for _, x := range nothings[ci.CQ]((*ciwrap.CQ)(nil), cq.CQ) {
		refused("SendCQ: "+x.what, ci.InvalidCQHandle, func(c *ci.QPCreate) { c.SendCQ = x.o })
		refused("RecvCQ: "+x.what, ci.InvalidCQHandle, func(c *ci.QPCreate) { c.RecvCQ = x.o })
	}
	if t.Claims().Has(ci.CapSRQ) {
		srq, _ := ca.SRQ(pd, 4, 1)
		for _, x := range pointers[ci.SRQ]((*ciwrap.SRQ)(nil), srq) { // nil is valid here
			refused("SRQ: "+x.what, ci.InvalidSRQHandle, func(c *ci.QPCreate) { c.SRQ, c.RecvDepth = x.o, 0 })
		}
	}
	kit.Destroy(t, cq.CQ, "CQ that no QP uses")
}

func nilMemory(t *validate.T) {
	pd := kit.Open(t).PD()
	mr, err := pd.RegisterMR(ci.MRCreate{Memory: (*kit.CopyMemory)(nil), Access: ci.LocalWrite})
	kit.WantRefused(t, mr, err, "PD.RegisterMR with Memory: a nil pointer", ci.InvalidParameter)
}

func nilDMA(t *validate.T) {
	d, err := kit.Open(t).MapDMA((*kit.CopyMemory)(nil))
	kit.WantRefused(t, d, err, "CA.MapDMA of a nil pointer", ci.InvalidParameter)
}

func nilSend(t *validate.T) {
	p := kit.UD(t)
	for _, x := range nothings[ci.AV]((*ciwrap.AV)(nil), p.A.AV) {
		wrs := []ci.SendWR{p.A.SendWR(1, 0, 7), p.A.SendWR(2, 0, 8)}
		wrs[1].To.AV = x.o
		p.B.Recv(p.B.RecvWR(1, 0, 100))
		n, err := p.A.PostSend(wrs)
		kit.WantTaken(t, "QP.PostSend of 2 datagrams, the second with AV: "+x.what, n, err, 1, ci.InvalidAVHandle,
			ci.InvalidParameter)
		p.A.CQ.WaitOK(1)
		p.B.RecvCQ.WaitOK(1)
	}
	p.A.CQ.Empty()
}

func nilBind(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	b := p.B.CA.Buf(p.B.PD, 64, bindable)
	w := p.B.CA.MW(p.B.PD, ci.MWType1)
	key := w.Key()
	refused := func(what string, want ci.Status, w ci.MW, mr ci.MR) {
		_, err := p.B.BindMW(bindID, ci.SendSignaled,
			ci.MWBind{MW: w, MR: mr, Key: key, Addr: b.Addr, Length: 64, Access: ci.RemoteRead})
		kit.WantExactly(t, err, "QP.BindMW with "+what, want, ci.InvalidParameter)
	}
	for _, x := range nothings[ci.MW]((*ciwrap.MW)(nil), w) {
		refused("MW: "+x.what, ci.InvalidMWHandle, x.o, b.MR)
	}
	for _, x := range nothings[ci.MR]((*ciwrap.MR)(nil), b.MR) {
		refused("MR: "+x.what, ci.InvalidMRHandle, w, x.o)
	}
	kit.Equal(t, "MW.Key after rejected binds", w.Key(), key)
	p.B.CQ.Empty()
}

func nilFast(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	s := newFast(t, p, 2)
	for _, x := range nothings[ci.MR]((*ciwrap.MR)(nil), s.MR) {
		wr := s.wr(1, ci.LocalWrite)
		s.ext.FastReg.MR = x.o
		s.fails(t, "OpFastReg with MR: "+x.what, wr)
	}
	s.register(t, ci.LocalWrite|ci.RemoteRead) // the region has not changed
}

func nilShared(t *validate.T) {
	ca := kit.Open(t)
	pd := ca.PD()
	b := ca.Buf(pd, 64, ci.LocalWrite)
	for _, x := range nothings[ci.MR]((*ciwrap.MR)(nil), b.MR) {
		mr, err := pd.RegisterSMR(x.o, 0, ci.LocalWrite)
		kit.WantRefused(t, mr, err, "PD.RegisterSMR of "+x.what, ci.InvalidMRHandle, ci.InvalidParameter)
	}
}

func nilModify(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	b := p.B.CA.Buf(p.B.PD, 64, kit.AllAccess)
	for _, x := range nothings[ci.PD]((*ciwrap.PD)(nil), p.B.PD) {
		kit.WantExactly(t, b.Modify(ci.MRFieldPD, x.o, ci.MRCreate{}), "MR.Modify with PD: "+x.what, ci.InvalidPDHandle,
			ci.InvalidParameter)
	}
	p.WantWrite("the region after rejected calls of MR.Modify", b.Remote(0), b.Bytes)
}

func nilFMR(t *validate.T) {
	ca := kit.Open(t)
	pd := ca.PD()
	f, err := pd.AllocFMR(ci.FMRCreate{MaxPages: 1, MaxMaps: 2, PageShift: pageShift(ca.Attr), Access: ci.LocalWrite})
	kit.OK(t, err, "PD.AllocFMR")
	kit.Own(t, f, "FMR")
	page := smallPage(ca.Attr)
	mem := kit.Pages(int(page), int(page))
	_, err = f.Map(kit.PageList(ca.DMA(mem).Ranges(), page), 0)
	kit.OK(t, err, "FMR.Map")
	for _, x := range nothings[ci.FMR]((*ciwrap.FMR)(nil), f) {
		kit.WantExactly(t, pd.UnmapFMRs([]ci.FMR{f, x.o}), "PD.UnmapFMRs of a mapped FMR and "+x.what,
			ci.InvalidFMRHandle, ci.InvalidParameter)
	}
	kit.WantExactly(t, f.Destroy(), "FMR.Destroy after rejected calls of UnmapFMRs, which must leave it mapped",
		ci.ResourceBusy)
	kit.OK(t, pd.UnmapFMRs([]ci.FMR{f}), "PD.UnmapFMRs")
}
