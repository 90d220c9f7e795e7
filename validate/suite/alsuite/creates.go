package alsuite

import (
	"errors"
	"fmt"
	"sync"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/ci/ciwrap/faults"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Callbacks of objects, also while they are created, and objects that are used by others.
var creates = area()

// eager stands above the driver. It can raise events within the creates, and has reliable datagram domains.
type eager struct {
	mu       sync.Mutex
	within   func(raise func(ci.Event), complete func()) // called in each create of an object with callbacks
	hasEvent bool                                        // the last create had a callback for events
	raise    func(ci.Event)                              // of the last create
	complete func()
	rdd      ci.RDD // of the last QP
	calls    []string
	fails    error // result of the verbs of EECs
}

func (g *eager) over(h ci.HCA) ci.HCA {
	return ciwrap.Wrap(h, ciwrap.Layer{
		CQCreate: func(c ci.CQCreate) ci.CQCreate {
			g.created(c.OnEvent, c.Context, func() { c.OnCompletion(c.Context) })
			return c
		},
		SRQCreate: func(c ci.SRQCreate) ci.SRQCreate { g.created(c.OnEvent, c.Context, func() {}); return c },
		QPCreate: func(c ci.QPCreate) ci.QPCreate {
			g.created(c.OnEvent, c.Context, func() {})
			g.mu.Lock()
			defer g.mu.Unlock()
			if g.rdd = c.RDD; c.RDD != nil { // the driver has no domains
				c.RDD, c.Type = nil, ci.RC
			}
			return c
		},
		PD: func(p ci.PD, _ ci.PDType) ci.PD { return eagerPD{ciwrap.PD{PD: p}, g} },
	})
}

// created is called within a create.
func (g *eager) created(onEvent func(ci.Event), ctx any, complete func()) {
	g.mu.Lock()
	g.hasEvent, g.complete = onEvent != nil, complete
	g.raise = func(e ci.Event) {
		if e.Context = ctx; onEvent != nil {
			onEvent(e)
		}
	}
	within, raise := g.within, g.raise
	g.mu.Unlock()
	if within != nil {
		within(raise, complete)
	}
}

func (g *eager) set(within func(raise func(ci.Event), complete func())) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.within = within
}

func (g *eager) record(what string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls = append(g.calls, what)
}

func (g *eager) take() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	calls := g.calls
	g.calls = nil
	return fmt.Sprint(calls)
}

type eagerPD struct {
	ciwrap.PD
	g *eager
}

func (p eagerPD) AllocRDD() (ci.RDD, error) { return &eagerRDD{p.g}, nil }

type eagerRDD struct{ g *eager }

func (r *eagerRDD) Destroy() error { r.g.record("RDD.Destroy"); return nil }

func (r *eagerRDD) CreateEEC(c ci.EECCreate) (ci.EEC, error) {
	r.g.created(c.OnEvent, c.Context, func() {})
	return &eagerEEC{r.g}, nil
}

type eagerEEC struct{ g *eager }

func (e *eagerEEC) Destroy() error { e.g.record("EEC.Destroy"); return nil }

func (e *eagerEEC) Num() ci.EECN { return 77 }

func (e *eagerEEC) Query() (ci.QPAttr, error) {
	e.g.record("EEC.Query")
	return ci.QPAttr{State: ci.QPRTS}, e.g.fails
}

func (e *eagerEEC) Modify(set ci.QPField, a ci.QPAttr) error {
	e.g.record(fmt.Sprintf("EEC.Modify %v %v", set, a.State))
	return e.g.fails
}

// origin creates an object with callbacks. isOwn and isPlain select the callback of the access layer and that of
// package ci. Each callback is passed to got.
type origin struct {
	name, verb string
	create     func(isOwn, isPlain bool, got func(to string, obj any, e ci.Event)) (destroyer, error)
}

// destroyer is an object of the access layer.
type destroyer interface {
	ci.Object
	DestroyAsync(onDone func(error)) error
}

// origins returns the creates of the objects that have events.
func origins(t *validate.T, pd *accesslayer.PD) []origin {
	one := ci.QPCaps{SendDepth: 1, RecvDepth: 1, SendSGE: 1, RecvSGE: 1}
	shared, err := pd.NewCQ(ci.CQCreate{Size: 8}, accesslayer.CQHandler{})
	kit.OK(t, err, "PD.NewCQ")
	rdd, err := pd.NewRDD()
	kit.OK(t, err, "PD.NewRDD")
	list := []origin{
		{"CQ", "PD.CreateCQ", func(isOwn, isPlain bool, got func(string, any, ci.Event)) (destroyer, error) {
			c, h := ci.CQCreate{Size: 4, Context: "ctx"}, accesslayer.CQHandler{}
			if isPlain {
				c.OnEvent = func(e ci.Event) { got("plain", nil, e) }
			}
			if isOwn {
				h.OnEvent = func(q *accesslayer.CQ, e ci.Event) { got("own", q, e) }
			}
			return pd.NewCQ(c, h)
		}},
		{"QP", "PD.CreateQP", func(isOwn, isPlain bool, got func(string, any, ci.Event)) (destroyer, error) {
			c := ci.QPCreate{QPCaps: one, SendCQ: shared, RecvCQ: shared, Context: "ctx"}
			var own func(*accesslayer.QP, ci.Event)
			if isPlain {
				c.OnEvent = func(e ci.Event) { got("plain", nil, e) }
			}
			if isOwn {
				own = func(q *accesslayer.QP, e ci.Event) { got("own", q, e) }
			}
			return pd.NewQP(c, own)
		}},
		{"EEC", "", func(isOwn, isPlain bool, got func(string, any, ci.Event)) (destroyer, error) {
			c := ci.EECCreate{Context: "ctx"}
			var own func(*accesslayer.EEC, ci.Event)
			if isPlain {
				c.OnEvent = func(e ci.Event) { got("plain", nil, e) }
			}
			if isOwn {
				own = func(q *accesslayer.EEC, e ci.Event) { got("own", q, e) }
			}
			return rdd.NewEEC(c, own)
		}},
	}
	if t.Claims().Has(ci.CapSRQ) {
		list = append(list, origin{"SRQ", "PD.CreateSRQ", func(isOwn, isPlain bool, got func(string, any,
			ci.Event)) (destroyer, error) {
			c := ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 4, MaxSGE: 1}, Context: "ctx"}
			var own func(*accesslayer.SRQ, ci.Event)
			if isPlain {
				c.OnEvent = func(e ci.Event) { got("plain", nil, e) }
			}
			if isOwn {
				own = func(q *accesslayer.SRQ, e ci.Event) { got("own", q, e) }
			}
			return pd.NewSRQ(c, own)
		}})
	}
	return list
}

var CICreate01 = creates.Must("CI-Create-01", "CI access layer", "accesslayer, PD.NewCQ, NewQP, NewSRQ, RDD.NewEEC",
	"Each event of an object reaches its callbacks, one at a time and in order, with the object, also if the "+
		"driver raises it before the create has returned. If the create fails, no callback is called. Events after "+
		"the begin of a destroy are dropped, and those before it are delivered before its end.")

var _ = creates.Case(validate.Case{
	ID:    "al.create.events",
	Title: "events within the create of each object, after it, and while it is destroyed",
	Run:   createEvents,
}, CICreate01)

func createEvents(t *validate.T) {
	g, inj := &eager{}, faults.New(t.Seed())
	s := newStageOver(t, accesslayer.Config{}, func(h ci.HCA) ci.HCA { return g.over(inj.Wrap(h)) })
	kit.OK(t, s.al.Register(s.hcas[0]), "Registrar.Register")
	ca := s.open(s.client, 0)
	pd := typed[*accesslayer.PD](t, ca.PD(), "PD")
	type call struct {
		to  string
		obj any
		e   ci.Event
	}
	event := func(n int) ci.Event { return ci.Event{Type: ci.EventSRQLimit, Vendor: uint64(n)} }
	for _, o := range kit.Variants(t, "", origins(t, pd)) {
		for _, v := range []struct{ isOwn, isPlain bool }{{true, false}, {false, true}, {true, true}, {}} {
			calls := make(chan call, 64)
			got := func(to string, obj any, e ci.Event) { calls <- call{to, obj, e} }
			g.set(func(raise func(ci.Event), _ func()) { raise(event(1)); raise(event(2)) })
			obj, err := o.create(v.isOwn, v.isPlain, got)
			kit.OK(t, err, "create of "+o.name)
			g.set(nil)
			kit.Equal(t, "event callback that the driver gets for "+o.name, g.hasEvent, v.isOwn || v.isPlain)
			g.raise(event(3))
			for n := 1; n <= 3; n++ {
				want := ci.Event{Type: ci.EventSRQLimit, Vendor: uint64(n), Context: "ctx"}
				where := fmt.Sprintf("callback of %s for event %d", o.name, n)
				if v.isOwn {
					c := expect(t, calls, where)
					kit.Equal(t, where, fmt.Sprint(c.to, c.e), fmt.Sprint("own", want))
					kit.True(t, c.obj == any(obj), where, "the object that was created", "%v", c.obj)
				}
				if v.isPlain {
					c := expect(t, calls, where)
					kit.Equal(t, where, fmt.Sprint(c.to, c.e), fmt.Sprint("plain", want))
				}
			}
			kit.OK(t, obj.Destroy(), o.name+".Destroy")
			g.raise(event(4))
			kit.Equal(t, "callbacks of a destroyed "+o.name, len(calls), 0)
		}
		createBlocked(t, g, o)
		if o.verb == "" {
			continue
		}
		// The create fails after events.
		fails := errors.New("an error of the driver")
		rule := inj.MustAdd(faults.Rule{Verb: o.verb, Err: fails})
		calls := make(chan call, 8)
		g.set(func(raise func(ci.Event), complete func()) { raise(event(1)); raise(event(2)); complete() })
		obj, err := o.create(true, true, func(to string, obj any, e ci.Event) { calls <- call{to, obj, e} })
		kit.True(t, errors.Is(err, fails) && ci.IsNil(obj), "create of "+o.name+" that fails",
			"the error of the driver", "%v", err)
		g.set(nil)
		rule.Remove()
		g.raise(event(3))
		none(t, calls, "callbacks of "+o.name+" that was not created")
	}
	kit.OK(t, pd.Destroy(), "PD.Destroy after creates that failed")
	kit.OK(t, s.al.Deregister(s.guid(0)), "Registrar.Deregister")
	s.rec[0].shut(t)
}

// createBlocked destroys an object while the first of its callbacks blocks.
func createBlocked(t *validate.T, g *eager, o origin) {
	entered, release := make(chan uint64, 8), make(chan struct{})
	free := sync.OnceFunc(func() { close(release) })
	defer free() // also if the case fails
	obj, err := o.create(true, false, func(_ string, _ any, e ci.Event) {
		entered <- e.Vendor
		if e.Vendor == 1 {
			<-release
		}
	})
	kit.OK(t, err, "create of "+o.name)
	for n := range uint64(3) {
		g.raise(ci.Event{Vendor: n + 1})
	}
	kit.Equal(t, "first callback of "+o.name, expect(t, entered, "callback"), 1)
	done := make(chan error, 4)
	kit.OK(t, obj.DestroyAsync(func(err error) { entered <- 100; done <- err }), o.name+".DestroyAsync")
	g.raise(ci.Event{Vendor: 50})
	none(t, entered, "callbacks of "+o.name+" while the first of them blocks")
	free()
	kit.OK(t, expect(t, done, "callback of "+o.name+".DestroyAsync"), o.name+".DestroyAsync")
	for _, want := range []uint64{2, 3, 100} {
		kit.Equal(t, "callbacks of "+o.name+" after the first of them, and of DestroyAsync", expect(t, entered,
			"callback"), want)
	}
	kit.Equal(t, "further callbacks of "+o.name, len(entered), 0)
}

var CICreate02 = creates.Must("CI-Create-02", "CI access layer", "accesslayer, CQHandler",
	"Each completion callback of the driver calls both callbacks of the CQ, with the CQ and with the context. It "+
		"does so on the driver's goroutine, and after the create if it comes within it.")

var _ = creates.Case(validate.Case{
	ID:    "al.create.completions",
	Title: "completion callbacks within the create of a CQ and after it",
	Run:   createCompletions,
}, CICreate02)

func createCompletions(t *validate.T) {
	g := &eager{}
	s := newStageOver(t, accesslayer.Config{}, g.over)
	kit.OK(t, s.al.Register(s.hcas[0]), "Registrar.Register")
	pd := typed[*accesslayer.PD](t, s.open(s.client, 0).PD(), "PD")
	for _, v := range []struct{ isOwn, isPlain bool }{{true, false}, {false, true}, {true, true}, {}} {
		calls := make(chan any, 16)
		c, h := ci.CQCreate{Size: 4, Context: "ctx"}, accesslayer.CQHandler{}
		if v.isPlain {
			c.OnCompletion = func(ctx any) { calls <- ctx }
		}
		if v.isOwn {
			h.OnCompletion = func(q *accesslayer.CQ) { calls <- q }
		}
		created := make(chan struct{})
		g.set(func(_ func(ci.Event), complete func()) {
			complete()
			kit.Equal(t, "completion callbacks before the CQ exists", len(calls), 0)
			close(created)
		})
		q, err := pd.NewCQ(c, h)
		kit.OK(t, err, "PD.NewCQ")
		expect(t, created, "create of the driver")
		g.set(nil)
		var want []any
		if v.isOwn {
			want = append(want, q)
		}
		if v.isPlain {
			want = append(want, "ctx")
		}
		for _, w := range want {
			got := expect(t, calls, "completion callback within the create")
			kit.True(t, got == w, "argument of a completion callback within the create", fmt.Sprint(w), "%v", got)
		}
		g.complete()
		kit.Equal(t, "completion callbacks when the driver's callback has returned", len(calls), len(want))
		for _, w := range want {
			got := <-calls
			kit.True(t, got == w, "argument of a completion callback", fmt.Sprint(w), "%v", got)
		}
		kit.OK(t, q.Destroy(), "CQ.Destroy")
	}
	s.rec[0].clean(t)
}

var CICreate03 = creates.Must("CI-Create-03", "CI access layer", "accesslayer, RDD, EEC, SRQ, MR",
	"An SRQ, a region and a domain are not destroyed while another object uses them, and stay usable. Verbs of a "+
		"domain and of its contexts reach the driver, which destroys the contexts first.")

var _ = creates.Case(validate.Case{
	ID:    "al.create.users",
	Title: "destroy an SRQ, a region and a domain that are used, and use the contexts of a domain",
	Run:   createUsers,
}, CICreate03)

func createUsers(t *validate.T) {
	g := &eager{}
	s := newStageOver(t, accesslayer.Config{}, g.over)
	kit.OK(t, s.al.Register(s.hcas[0]), "Registrar.Register")
	ca := s.open(s.client, 0)
	pd := typed[*accesslayer.PD](t, ca.PD(), "PD")
	cq, err := pd.NewCQ(ci.CQCreate{Size: 8}, accesslayer.CQHandler{})
	kit.OK(t, err, "PD.NewCQ")
	rdd, err := pd.NewRDD()
	kit.OK(t, err, "PD.NewRDD")
	eec, err := rdd.NewEEC(ci.EECCreate{}, nil)
	kit.OK(t, err, "RDD.NewEEC")
	kit.Equal(t, "EEC.Num", eec.Num(), 77)
	a, err := eec.Query()
	kit.OK(t, err, "EEC.Query")
	kit.Equal(t, "state of EEC.Query", a.State, ci.QPRTS)
	kit.OK(t, eec.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPSQD}), "EEC.Modify")
	g.fails = errors.New("an error of the driver")
	_, err = eec.Query()
	kit.True(t, errors.Is(err, g.fails), "EEC.Query that fails", "the error of the driver", "%v", err)
	err = eec.Modify(0, ci.QPAttr{})
	kit.True(t, errors.Is(err, g.fails), "EEC.Modify that fails", "the error of the driver", "%v", err)
	kit.Equal(t, "verbs of the driver's context", g.take(), fmt.Sprintf("[EEC.Query EEC.Modify %v %v EEC.Query "+
		"EEC.Modify %v %v]", ci.QPFieldState, ci.QPSQD, ci.QPField(0), ci.QPState(0)))
	qp := ci.QPCreate{QPCaps: ci.QPCaps{SendDepth: 1, RecvDepth: 1, SendSGE: 1, RecvSGE: 1}, SendCQ: cq, RecvCQ: cq}
	held := func(name string, obj destroyer, users ...ci.Object) {
		for i, u := range users {
			kit.WantExactly(t, obj.Destroy(), name+".Destroy while it is used", ci.ResourceBusy)
			kit.WantExactly(t, obj.DestroyAsync(func(error) {
				t.Report(validate.Failure{Where: "callback of " + name + ".DestroyAsync", Expected: "none",
					Got: "a call"})
			}), name+".DestroyAsync while it is used", ci.ResourceBusy)
			kit.OK(t, u.Destroy(), fmt.Sprintf("destroy of user %d of the %s", i+1, name))
		}
		kit.OK(t, obj.Destroy(), name+".Destroy when it is not used any more")
		kit.True(t, errors.Is(obj.Destroy(), accesslayer.ErrClosed), "second "+name+".Destroy", "ErrClosed",
			"another result")
	}
	rd := qp
	rd.Type, rd.RDD = ci.RD, rdd.CI()
	var users []ci.Object
	for range 2 {
		q, err := pd.NewQP(rd, nil)
		kit.OK(t, err, "PD.NewQP with an RDD")
		_, ok := ci.As[*eagerRDD](g.rdd)
		kit.True(t, ok, "RDD that the driver gets", "one that leads to its own", "%v", g.rdd)
		users = append(users, q)
	}
	held("RDD", rdd, users...)
	kit.Equal(t, "destroys of the driver", g.take(), "[EEC.Destroy RDD.Destroy]")
	for where, f := range map[string]func() error{
		"EEC.Query":  func() error { _, err := eec.Query(); return err },
		"EEC.Modify": func() error { return eec.Modify(0, ci.QPAttr{}) },
	} {
		err := f()
		kit.WantExactly(t, err, where+" of a destroyed context", ci.InvalidHandle)
		kit.True(t, errors.Is(err, accesslayer.ErrClosed), where+" of a destroyed context", "ErrClosed", "%v", err)
	}
	_, err = rdd.NewEEC(ci.EECCreate{}, nil)
	kit.WantExactly(t, err, "RDD.NewEEC of a destroyed domain", ci.InvalidState)
	_, err = pd.NewQP(rd, nil)
	kit.WantExactly(t, err, "PD.NewQP with a destroyed RDD", ci.InvalidHandle)
	kit.Equal(t, "verbs of the driver's context after its destroy", g.take(), "[]")
	if t.Claims().Has(ci.CapSRQ) {
		srq, err := pd.NewSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 4, MaxSGE: 1}}, nil)
		kit.OK(t, err, "PD.NewSRQ")
		c := qp
		c.SRQ, c.RecvDepth, c.RecvSGE = srq, 0, 0
		q, err := pd.NewQP(c, nil)
		kit.OK(t, err, "PD.NewQP with an SRQ")
		attr, err := q.Query()
		kit.OK(t, err, "QP.Query")
		kit.True(t, ci.Same(attr.SRQ, srq), "SRQ of QP.Query", "that of NewQP", "another one")
		held("SRQ", srq, q)
		_, err = pd.NewQP(c, nil)
		kit.WantExactly(t, err, "PD.NewQP with a destroyed SRQ", ci.InvalidSRQHandle)
	}
	if t.Claims().Has(ci.CapSharedMR) {
		mr, err := pd.NewMR(ci.MRCreate{Memory: ci.Bytes(make([]byte, 64)), Access: kit.AllAccess})
		kit.OK(t, err, "PD.NewMR")
		smr, err := pd.NewSMR(mr, 0, ci.LocalWrite)
		kit.OK(t, err, "PD.NewSMR")
		held("MR", mr, smr)
		_, err = pd.NewSMR(mr, 0, ci.LocalWrite)
		kit.WantExactly(t, err, "PD.NewSMR of a destroyed region", ci.InvalidMRHandle)
	}
	kit.OK(t, cq.Destroy(), "CQ.Destroy")
	_, err = pd.NewQP(qp, nil)
	kit.WantExactly(t, err, "PD.NewQP with a destroyed CQ", ci.InvalidCQHandle)
	kit.OK(t, s.al.Deregister(s.guid(0)), "Registrar.Deregister")
	s.rec[0].shut(t)
}
