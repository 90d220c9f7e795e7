package alsuite

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/ci/ciwrap/faults"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Every verb of the objects of the access layer, and every destroy.
var verbs = area()

// verbStage is one object of each kind that the driver supports.
type verbStage struct {
	*stage
	inj     *faults.Injector
	num     uint8
	page    uint8 // log2 of the smallest page
	client  *accesslayer.Client
	ca      *accesslayer.CA
	user    *accesslayer.UserCA
	pd      *accesslayer.PD
	av      *accesslayer.AV
	cq      *accesslayer.CQ
	srq     *accesslayer.SRQ
	qp, rc  *accesslayer.QP
	mr      *accesslayer.MR
	fast    *accesslayer.MR
	mw      *accesslayer.MW
	fmr     *accesslayer.FMR
	dma     *accesslayer.DMA
	handler *accesslayer.EventHandler
	mcast   ci.Mcast
}

// process is the process of a client.
type process struct{}

func (process) PID() int { return 1 }

func (process) PointerBits() int { return 64 }

func (process) Memory(uint64, uint64, ci.Access) (ci.Memory, error) { return nil, ci.InvalidPermission }

func newVerbStage(t *validate.T, cfg accesslayer.Config) *verbStage {
	v := &verbStage{inj: faults.New(t.Seed())}
	v.stage = newStageOver(t, cfg, v.inj.Wrap)
	kit.OK(t, v.al.Register(v.hcas[0]), "Registrar.Register")
	return v
}

// made fails the case unless a create was successful.
func made[O any](t *validate.T, verb string) func(O, error) O {
	return func(o O, err error) O {
		kit.OK(t, err, verb)
		return o
	}
}

// build creates the objects for a new client.
func (v *verbStage) build(strict bool) {
	t, caps := v.t, v.t.Claims()
	attr := t.Attr()
	v.num, v.page = attr.Ports[0].Num, uint8(bits.TrailingZeros64(slices.Min(attr.PageSizes)))
	v.user, v.av, v.srq = nil, nil, nil
	v.mw, v.dma = nil, nil
	v.fast, v.fmr, v.mcast = nil, nil, nil
	var err error
	v.client, err = v.al.Open(accesslayer.ClientConfig{Name: "verbs", Strict: strict})
	kit.OK(t, err, "AL.Open")
	v.ca = made[*accesslayer.CA](t, "Client.OpenCA")(v.client.OpenCA(v.guid(0), nil))
	v.pd = made[*accesslayer.PD](t, "CA.NewPD")(v.ca.NewPD(ci.PDNormal))
	v.cq = made[*accesslayer.CQ](t, "PD.NewCQ")(v.pd.NewCQ(ci.CQCreate{Size: 16}, accesslayer.CQHandler{}))
	v.mr = made[*accesslayer.MR](t, "PD.NewMR")(v.pd.NewMR(ci.MRCreate{Memory: ci.Bytes(make([]byte, 64)),
		Access: kit.AllAccess}))
	if caps&(ci.CapPhysicalMR|ci.CapFMR|ci.CapFastReg) != 0 {
		v.dma = made[*accesslayer.DMA](t, "CA.NewDMA")(v.ca.NewDMA(ci.Bytes(make([]byte, 64))))
	}
	v.handler = made[*accesslayer.EventHandler](t, "CA.NewEventHandler")(v.ca.NewEventHandler(func(ci.Event) {}, nil))
	c := ci.QPCreate{QPCaps: ci.QPCaps{SendDepth: 1, RecvDepth: 1, SendSGE: 1, RecvSGE: 1}, SendCQ: v.cq, RecvCQ: v.cq}
	v.rc = made[*accesslayer.QP](t, "PD.NewQP")(v.pd.NewQP(c, nil))
	v.qp = v.rc
	if caps.Has(ci.CapUD) {
		c.Type = ci.UD
		v.qp = made[*accesslayer.QP](t, "PD.NewQP")(v.pd.NewQP(c, nil))
		if caps.Has(ci.CapMulticast) && attr.Ports[0].Link == ci.LinkInfiniBand {
			kit.OK(t, v.qp.InitDatagram(v.num, 1, 0), "QP.InitDatagram")
			v.mcast = made[ci.Mcast](t, "QP.AttachMcast")(v.qp.AttachMcast(ci.McastAttach{
				GID: ci.GID{0xff, 0x12, 15: 1}, LID: 0xc001}))
		}
	}
	if caps.Has(ci.CapUser) {
		v.user = made[*accesslayer.UserCA](t, "CA.NewUser")(v.ca.NewUser(process{}, &ci.UserBuffer{}))
	}
	if caps.Has(ci.CapAV) {
		v.av = made[*accesslayer.AV](t, "PD.NewAV")(v.pd.NewAV(v.address()))
	}
	if caps.Has(ci.CapSRQ) {
		v.srq = made[*accesslayer.SRQ](t, "PD.NewSRQ")(v.pd.NewSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 4,
			MaxSGE: 1}}, nil))
	}
	if caps.Has(ci.CapMW1) {
		v.mw = made[*accesslayer.MW](t, "PD.NewMW")(v.pd.NewMW(ci.MWCreate{Type: ci.MWType1}))
	}
	if caps.Has(ci.CapFastReg) {
		v.fast = made[*accesslayer.MR](t, "PD.NewFastRegMR")(v.pd.NewFastRegMR(1))
	}
	if caps.Has(ci.CapFMR) {
		v.fmr = made[*accesslayer.FMR](t, "PD.NewFMR")(v.pd.NewFMR(ci.FMRCreate{MaxPages: 1, MaxMaps: 1,
			PageShift: v.page}))
	}
}

// address returns the address of the adapter's own port.
func (v *verbStage) address() ci.AVAttr {
	p := &v.t.Attr().Ports[0]
	a := ci.AVAttr{Port: p.Num, DLID: p.LID}
	if p.Link != ci.LinkInfiniBand {
		a.Global, a.GRH.DGID = true, p.GIDs[0].GID
		a.GRH.HopLimit = 8
	}
	return a
}

// alVerb is a verb of the access layer and the one of the driver that it calls.
type alVerb struct {
	name string // of the driver's verb
	on   func(*verbStage) ci.Object
	gone ci.Status // of a destroyed object
	call func(*verbStage) (any, error)
}

// verbOn returns a verb that returns no object.
func verbOn[O ci.Object](name string, gone ci.Status, of func(*verbStage) O, call func(*verbStage, O) error) alVerb {
	return alVerb{name, func(v *verbStage) ci.Object { return of(v) }, gone,
		func(v *verbStage) (any, error) { return nil, call(v, of(v)) }}
}

// createOn returns a verb that creates an object.
func createOn[O ci.Object, R any](name string, of func(*verbStage) O, call func(*verbStage, O) (R, error)) alVerb {
	return alVerb{name, func(v *verbStage) ci.Object { return of(v) }, ci.InvalidState,
		func(v *verbStage) (any, error) {
			r, err := call(v, of(v))
			if ci.IsNil(r) {
				return nil, err
			}
			return r, err
		}}
}

func alVerbs() []alVerb {
	type (
		st = *verbStage
		al = accesslayer.CA
	)
	ca := func(v st) *al { return v.ca }
	user := func(v st) *accesslayer.UserCA { return v.user }
	pd := func(v st) *accesslayer.PD { return v.pd }
	av := func(v st) *accesslayer.AV { return v.av }
	cq := func(v st) *accesslayer.CQ { return v.cq }
	srq := func(v st) *accesslayer.SRQ { return v.srq }
	qp := func(v st) *accesslayer.QP { return v.qp }
	mr := func(v st) *accesslayer.MR { return v.mr }
	mw := func(v st) *accesslayer.MW { return v.mw }
	small := func(v st) ci.QPCreate {
		return ci.QPCreate{QPCaps: ci.QPCaps{SendDepth: 1, RecvDepth: 1, SendSGE: 1, RecvSGE: 1}, SendCQ: v.cq,
			RecvCQ: v.cq}
	}
	return []alVerb{
		verbOn("CA.Query", ci.InvalidCAHandle, ca, func(_ st, o *al) error { _, err := o.Query(); return err }),
		verbOn("CA.Modify", ci.InvalidCAHandle, ca, func(v st, o *al) error {
			return o.Modify(v.num, 0, ci.PortModify{})
		}),
		verbOn("CA.LocalMAD", ci.InvalidCAHandle, ca, func(v st, o *al) error {
			return o.LocalMAD(v.num, nil, &ci.MAD{3: 2}, &ci.MAD{})
		}),
		verbOn("CA.SLForIP", ci.InvalidCAHandle, ca, func(v st, o *al) error {
			_, err := o.SLForIP(v.num, 1)
			return err
		}),
		verbOn("CA.VendorCall", ci.InvalidCAHandle, ca, func(_ st, o *al) error {
			return o.VendorCall(&ci.VendorOp{})
		}),
		createOn("CA.AllocatePD", ca, func(_ st, o *al) (any, error) { return o.NewPD(ci.PDNormal) }),
		createOn("CA.OpenUser", ca, func(_ st, o *al) (any, error) { return o.NewUser(process{}, &ci.UserBuffer{}) }),
		createOn("CA.MapDMA", ca, func(_ st, o *al) (any, error) { return o.NewDMA(ci.Bytes(make([]byte, 8))) }),
		createOn("UserCA.AllocatePD", user, func(_ st, o *accesslayer.UserCA) (any, error) {
			return o.NewPD(ci.PDNormal, &ci.UserBuffer{})
		}),
		createOn("UserCA.AllocatePD", user, func(_ st, o *accesslayer.UserCA) (any, error) { // of the view
			return o.CI().AllocatePD(ci.PDNormal, &ci.UserBuffer{})
		}),
		createOn("CA.AllocatePD", ca, func(_ st, o *al) (any, error) { return o.CI().AllocatePD(ci.PDNormal) }),
		createOn("CA.OpenUser", ca, func(_ st, o *al) (any, error) {
			return o.CI().OpenUser(process{}, &ci.UserBuffer{})
		}),
		verbOn("UserCA.VendorCall", ci.InvalidCAHandle, user, func(_ st, o *accesslayer.UserCA) error {
			return o.VendorCall(&ci.VendorOp{}, &ci.UserBuffer{})
		}),
		createOn("PD.CreateAV", pd, func(v st, o *accesslayer.PD) (any, error) { return o.NewAV(v.address()) }),
		createOn("PD.CreateCQ", pd, func(_ st, o *accesslayer.PD) (any, error) {
			return o.NewCQ(ci.CQCreate{Size: 1}, accesslayer.CQHandler{})
		}),
		createOn("PD.CreateSRQ", pd, func(_ st, o *accesslayer.PD) (any, error) {
			return o.NewSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 1, MaxSGE: 1}}, nil)
		}),
		createOn("PD.CreateQP", pd, func(v st, o *accesslayer.PD) (any, error) { return o.NewQP(small(v), nil) }),
		createOn("PD.CreateSpecialQP", pd, func(v st, o *accesslayer.PD) (any, error) {
			c := small(v)
			c.Type = ci.QP1
			return o.NewSpecialQP(v.num, c, nil)
		}),
		createOn("PD.RegisterMR", pd, func(_ st, o *accesslayer.PD) (any, error) {
			return o.NewMR(ci.MRCreate{Memory: ci.Bytes(make([]byte, 8))})
		}),
		createOn("PD.RegisterPMR", pd, func(_ st, o *accesslayer.PD) (any, error) { return o.NewPMR(ci.PMRCreate{}) }),
		createOn("PD.RegisterSMR", pd, func(v st, o *accesslayer.PD) (any, error) { return o.NewSMR(v.mr, 0, 0) }),
		createOn("PD.AllocFastRegMR", pd, func(_ st, o *accesslayer.PD) (any, error) { return o.NewFastRegMR(1) }),
		createOn("PD.AllocFMR", pd, func(v st, o *accesslayer.PD) (any, error) {
			return o.NewFMR(ci.FMRCreate{MaxPages: 1, MaxMaps: 1, PageShift: v.page})
		}),
		verbOn("PD.UnmapFMRs", ci.InvalidPDHandle, pd, func(_ st, o *accesslayer.PD) error {
			return o.UnmapFMRs(nil)
		}),
		createOn("PD.CreateMW", pd, func(_ st, o *accesslayer.PD) (any, error) {
			return o.NewMW(ci.MWCreate{Type: ci.MWType1})
		}),
		createOn("PD.AllocRDD", pd, func(_ st, o *accesslayer.PD) (any, error) { return o.NewRDD() }),
		verbOn("AV.Query", ci.InvalidAVHandle, av, func(_ st, o *accesslayer.AV) error {
			_, _, err := o.Query()
			return err
		}),
		verbOn("AV.Modify", ci.InvalidAVHandle, av, func(v st, o *accesslayer.AV) error {
			return o.Modify(v.address())
		}),
		verbOn("CQ.Query", ci.InvalidCQHandle, cq, func(_ st, o *accesslayer.CQ) error {
			_, err := o.Query()
			return err
		}),
		verbOn("CQ.Resize", ci.InvalidCQHandle, cq, func(_ st, o *accesslayer.CQ) error {
			_, err := o.Resize(ci.CQResize{Size: 20})
			return err
		}),
		verbOn("CQ.Modify", ci.InvalidCQHandle, cq, func(_ st, o *accesslayer.CQ) error {
			return o.Modify(ci.Moderation{})
		}),
		verbOn("SRQ.Query", ci.InvalidSRQHandle, srq, func(_ st, o *accesslayer.SRQ) error {
			_, err := o.Query()
			return err
		}),
		verbOn("SRQ.Modify", ci.InvalidSRQHandle, srq, func(_ st, o *accesslayer.SRQ) error {
			return o.Modify(0, ci.SRQAttr{})
		}),
		verbOn("QP.Query", ci.InvalidQPHandle, qp, func(_ st, o *accesslayer.QP) error {
			_, err := o.Query()
			return err
		}),
		verbOn("QP.Modify", ci.InvalidQPHandle, qp, func(_ st, o *accesslayer.QP) error {
			return o.Modify(ci.ToError())
		}),
		createOn("QP.AttachMcast", qp, func(_ st, o *accesslayer.QP) (any, error) {
			return o.AttachMcast(ci.McastAttach{GID: ci.GID{0xff, 0x12, 15: 2}, LID: 0xc002})
		}),
		verbOn("MR.Query", ci.InvalidMRHandle, mr, func(_ st, o *accesslayer.MR) error {
			_, err := o.Query()
			return err
		}),
		verbOn("MR.Modify", ci.InvalidMRHandle, mr, func(v st, o *accesslayer.MR) error {
			return o.Modify(ci.MRFieldPD, v.pd.CI(), ci.MRCreate{})
		}),
		verbOn("MR.ModifyPMR", ci.InvalidMRHandle, mr, func(v st, o *accesslayer.MR) error {
			return o.ModifyPMR(ci.MRFieldAccess, nil, ci.PMRCreate{})
		}),
		verbOn("MW.Query", ci.InvalidMWHandle, mw, func(_ st, o *accesslayer.MW) error {
			_, err := o.Query()
			return err
		}),
	}
}

var CIVerb01 = verbs.Must("CI-Verb-01", "CI access layer", "accesslayer",
	"Each verb of an object calls the driver's verb once and returns its error. A create that fails returns no "+
		"object. A verb of a destroyed object does not reach the driver and returns ErrClosed with the status of "+
		"the object, and a create below it InvalidState.")

var _ = verbs.Case(validate.Case{
	ID:    "al.verb.each",
	Title: "each verb of each object, which fails in the driver, and whose object is destroyed",
	Run:   verbEach,
}, CIVerb01)

func verbEach(t *validate.T) {
	v := newVerbStage(t, accesslayer.Config{})
	v.build(false)
	fails := errors.New("an error of the driver")
	list := alVerbs()
	for _, x := range kit.Variants(t, "", list) {
		if ci.IsNil(x.on(v)) {
			continue
		}
		for range 2 { // the first call must not change what the second one does
			rule := v.inj.MustAdd(faults.Rule{Verb: x.name, Err: fails})
			o, err := x.call(v)
			rule.Remove()
			kit.True(t, errors.Is(err, fails), x.name+" that fails", "the error of the driver", "%v", err)
			kit.True(t, o == nil, "object of "+x.name+" that fails", "nil", "%v", o)
			kit.Equal(t, "calls of the driver by "+x.name, rule.Struck(), 1)
		}
	}
	// Each object is used once more and destroyed, in the order of the list from the end.
	for i := range list {
		x := list[len(list)-1-i]
		o := x.on(v)
		if ci.IsNil(o) {
			continue
		}
		err := o.Destroy()
		kit.True(t, err == nil || errors.Is(err, accesslayer.ErrClosed), "Destroy before "+x.name,
			"success, or ErrClosed", "%v", err)
		before := v.inj.Calls(x.name)
		made, err := x.call(v)
		kit.WantExactly(t, err, x.name+" of a destroyed object", x.gone)
		kit.True(t, errors.Is(err, accesslayer.ErrClosed), x.name+" of a destroyed object", "ErrClosed", "%v", err)
		kit.True(t, made == nil, "object of "+x.name+" of a destroyed object", "nil", "%v", made)
		kit.Equal(t, "calls of the driver by "+x.name+" of a destroyed object", v.inj.Calls(x.name)-before, 0)
	}
	kit.OK(t, v.client.Close(), "Client.Close")
	kit.OK(t, v.al.Deregister(v.guid(0)), "Registrar.Deregister")
	v.rec[0].shut(t)
}

var CIVerb02 = verbs.Must("CI-Verb-02", "CI access layer", "accesslayer, object.Destroy",
	"If the driver reports a region, a window, an FMR, a DMA mapping or an address vector busy, Destroy returns "+
		"ResourceBusy and the object stays. Every other destroy that the driver refuses is repeated.")

var _ = verbs.Case(validate.Case{
	ID:    "al.verb.busy",
	Title: "the driver reports each object busy when it is destroyed",
	Run:   verbBusy,
}, CIVerb02)

func verbBusy(t *validate.T) {
	v := newVerbStage(t, accesslayer.Config{})
	v.build(false)
	for _, x := range kit.Variants(t, "", []struct {
		name  string
		o     ci.Object
		stays bool
		gone  ci.Status
	}{
		{"MW", v.mw, true, ci.InvalidMWHandle}, {"MR", v.mr, true, ci.InvalidMRHandle},
		{"MR", v.fast, true, ci.InvalidMRHandle}, {"FMR", v.fmr, true, ci.InvalidFMRHandle},
		{"DMA", v.dma, true, ci.InvalidHandle}, {"AV", v.av, true, ci.InvalidAVHandle},
		{"Mcast", v.mcast, false, ci.InvalidMcastHandle}, {"QP", v.rc, false, ci.InvalidQPHandle},
		{"QP", v.qp, false, ci.InvalidQPHandle}, {"SRQ", v.srq, false, ci.InvalidSRQHandle},
		{"CQ", v.cq, false, ci.InvalidCQHandle}, {"PD", v.pd, false, ci.InvalidPDHandle},
		{"UserCA", v.user, false, ci.InvalidCAHandle},
	}) {
		if ci.IsNil(x.o) || x.name == "QP" && x.o == v.rc && v.rc == v.qp {
			continue
		}
		verb := x.name + ".Destroy"
		refused := uint64(1)
		if x.stays {
			for range 2 {
				rule := v.inj.MustAdd(faults.Rule{Verb: verb, Status: ci.ResourceBusy, Count: 1})
				kit.WantExactly(t, x.o.Destroy(), verb+" of a busy object", ci.ResourceBusy)
				kit.Equal(t, "calls of "+verb+" for a busy object", rule.Struck(), 1)
				rule.Remove()
			}
		}
		status := ci.ResourceBusy
		if x.stays {
			status = ci.ErrorStatus
		}
		rule := v.inj.MustAdd(faults.Rule{Verb: verb, Status: status, Count: refused})
		before := v.inj.Calls(verb)
		kit.OK(t, x.o.Destroy(), verb+", which the driver refuses once")
		kit.Equal(t, "calls of "+verb+", which the driver refuses once", v.inj.Calls(verb)-before, 2)
		rule.Remove()
		err := x.o.Destroy()
		kit.WantExactly(t, err, "second "+verb, x.gone)
		kit.True(t, errors.Is(err, accesslayer.ErrClosed) && !errors.Is(err, accesslayer.ErrGivenUp), "second "+verb,
			"ErrClosed", "%v", err)
	}
	kit.OK(t, v.client.Close(), "Client.Close")
	// Busy objects do not stay if their parent is destroyed, or if nobody waits.
	v.build(false)
	for _, x := range []struct {
		name string
		o    destroyer
	}{{"MR", v.mr}, {"MW", v.mw}, {"FMR", v.fmr}, {"DMA", v.dma}, {"AV", v.av}} {
		if ci.IsNil(x.o) {
			continue
		}
		verb := x.name + ".Destroy"
		rule := v.inj.MustAdd(faults.Rule{Verb: verb, Status: ci.ResourceBusy, Count: 1})
		done := make(chan error, 2)
		kit.OK(t, x.o.DestroyAsync(func(err error) { done <- err }), x.name+".DestroyAsync")
		kit.OK(t, expect(t, done, "callback of "+x.name+".DestroyAsync"), x.name+".DestroyAsync of a busy object")
		kit.Equal(t, "calls of "+verb+" that the driver refused", rule.Struck(), 1)
		rule.Remove()
	}
	rules := make([]*faults.Fault, 0, 4)
	v.build(false)
	for _, verb := range []string{"MR.Destroy", "PD.Destroy", "CQ.Destroy", "DMA.Destroy"} {
		rules = append(rules, v.inj.MustAdd(faults.Rule{Verb: verb, Status: ci.ResourceBusy, Count: 1}))
	}
	unmap := rules[len(rules)-1]
	kit.OK(t, v.client.Close(), "Client.Close with objects that the driver reports busy")
	for _, r := range rules {
		if r != unmap || v.dma != nil {
			kit.Equal(t, "refusals while the client was closed", r.Struck(), 1)
		}
		r.Remove()
	}
	kit.Equal(t, "objects of a closed client", fmt.Sprint(v.client.Objects()), "map[]")
	kit.OK(t, v.al.Deregister(v.guid(0)), "Registrar.Deregister")
	v.rec[0].shut(t)
}
