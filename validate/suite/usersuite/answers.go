package usersuite

import (
	"fmt"
	"slices"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// Answers of the driver that its user library cannot use. (SAS 2.4.)
var unusable = area().Needing(validate.Needs{Caps: ci.CapUser})

// garbler changes the answers of the driver to one verb before the user library reads them.
type garbler struct {
	verb   string
	change func(out []byte) []byte
	size   map[string]int // bytes of the last answer, by verb
}

func (g *garbler) apply(verb string, ub *ci.UserBuffer, err error) {
	if err != nil || ub == nil {
		return
	}
	g.size[verb] = len(ub.Out)
	if verb == g.verb && g.change != nil && len(ub.Out) > 0 {
		ub.Out = g.change(slices.Clone(ub.Out))
	}
}

// garbleCreate returns hooks whose Post reads changed answers.
func garbleCreate[A any](g *garbler, h ci.UserFallibleHook[A], verb string) ci.UserFallibleHook[A] {
	post := h.Post
	if post == nil {
		return h
	}
	h.Post = func(a *A, ub *ci.UserBuffer, err error) error {
		g.apply(verb, ub, err)
		return post(a, ub, err)
	}
	return h
}

// garbleOther is garbleCreate for hooks that cannot fail.
func garbleOther[A any](g *garbler, h ci.UserHook[A], verb string) ci.UserHook[A] {
	post := h.Post
	if post == nil {
		return h
	}
	h.Post = func(a *A, ub *ci.UserBuffer, err error) {
		g.apply(verb, ub, err)
		post(a, ub, err)
	}
	return h
}

// over returns a user library whose hooks read changed answers.
func (g *garbler) over(lib *ci.UserLibrary) *ci.UserLibrary {
	x := *lib
	x.OpenCA = garbleCreate(g, x.OpenCA, "HCA.OpenCA")
	x.CreateCQ = garbleCreate(g, x.CreateCQ, "PD.CreateCQ")
	x.CreateQP = garbleCreate(g, x.CreateQP, "PD.CreateQP")
	x.CreateSRQ = garbleCreate(g, x.CreateSRQ, "PD.CreateSRQ")
	x.CreateAV = garbleCreate(g, x.CreateAV, "PD.CreateAV")
	x.ResizeCQ = garbleOther(g, x.ResizeCQ, "CQ.Resize")
	x.ModifySRQ = garbleOther(g, x.ModifySRQ, "SRQ.Modify")
	return &x
}

// with changes the answers to a verb while f runs.
func (g *garbler) with(verb string, change func([]byte) []byte, f func()) {
	g.verb, g.change = verb, change
	f()
	g.verb, g.change = "", nil
}

var _ = unusable.Add("user.library.answers", "answers of the driver that are cut, or have a wrong byte",
	libraryAnswers, req.SAS2_4_13)

// answered is a verb whose answer is changed.
type answered struct {
	verb string
	caps ci.Caps
	// call calls the verb. use uses the object, if there is one, so that a wrong address in it has an effect.
	call func(x *answeredStage) (ci.Object, error)
	use  func(o ci.Object)
}

// answeredStage is an application with changed answers.
type answeredStage struct {
	h  ci.HCA
	ca *kit.CA
	pd ci.PD
	cq ci.CQ
}

var answeredVerbs = []answered{
	{"HCA.OpenCA", 0, func(x *answeredStage) (ci.Object, error) {
		return x.h.OpenCA(x.h.Info().GUID, func(ci.Event) {}, nil)
	}, func(o ci.Object) {
		if pd, err := o.(ci.CA).AllocatePD(ci.PDNormal); err == nil {
			if cq, err := pd.CreateCQ(ci.CQCreate{Size: 3}); err == nil {
				_, _ = cq.Poll(make([]ci.WC, 2))
				_ = cq.Destroy()
			}
			_ = pd.Destroy()
		}
	}},
	{"PD.CreateCQ", 0, func(x *answeredStage) (ci.Object, error) { return x.pd.CreateCQ(ci.CQCreate{Size: 5}) },
		func(o ci.Object) {
			_, _ = o.(ci.CQ).Poll(make([]ci.WC, 4))
			_ = o.(ci.CQ).Notify(ci.NotifyNext)
		}},
	{"PD.CreateQP", 0, func(x *answeredStage) (ci.Object, error) {
		return x.pd.CreateQP(ci.QPCreate{Type: ci.RC, SendCQ: x.cq, RecvCQ: x.cq,
			QPCaps: ci.QPCaps{SendDepth: 2, RecvDepth: 2, SendSGE: 1, RecvSGE: 1}})
	}, func(o ci.Object) {
		q := o.(ci.QP)
		_ = q.Modify(ci.QPFieldsInit, ci.QPAttr{State: ci.QPInit, Port: 1})
		_, _ = q.PostRecv([]ci.RecvWR{{ID: 1}})
		_ = q.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPError})
		_, _ = q.PostSend([]ci.SendWR{{ID: 1, Op: ci.OpSend, Flags: ci.SendSignaled}})
	}},
	{"PD.CreateSRQ", ci.CapSRQ, func(x *answeredStage) (ci.Object, error) {
		return x.pd.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 3, MaxSGE: 1}})
	}, func(o ci.Object) { _, _ = o.(ci.SRQ).PostRecv([]ci.RecvWR{{ID: 1}, {ID: 2}}) }},
	{"PD.CreateAV", ci.CapAV, func(x *answeredStage) (ci.Object, error) {
		return x.pd.CreateAV(x.ca.AddressOf(x.ca))
	}, func(ci.Object) {}},
}

func libraryAnswers(t *validate.T) {
	lib := t.UserLibrary()
	s := startStage(t, new(trace), nil)
	other := s.with(lib)
	p := other.pair()
	g := &garbler{size: map[string]int{}}
	for _, v := range kit.Variants(t, "", answeredVerbs) {
		if !t.Claims().Has(v.caps) {
			continue
		}
		a := s.with(g.over(lib))
		x := &answeredStage{h: a.hca(0), ca: a.open()}
		x.pd = x.ca.PD()
		x.cq = x.ca.CQ(x.pd, 8).CQ
		try := func(what string, change func([]byte) []byte, mustFail bool) {
			var o ci.Object
			var err error
			g.with(v.verb, change, func() { o, err = v.call(x) })
			if mustFail && err == nil {
				t.Failf(v.verb+" with "+what, "an error", "success")
			}
			if err == nil {
				v.use(o)
				_ = o.Destroy() // its answer named other objects
			}
		}
		try("the driver's answer", nil, false)
		n := g.size[v.verb]
		if n == 0 {
			continue // the driver has no answer to it
		}
		try("an answer that lacks a byte", func(b []byte) []byte { return b[:len(b)-1] }, true)
		try("an answer with a byte more", func(b []byte) []byte { return append(b, 0) }, false)
		for at := range n {
			try(fmt.Sprintf("byte %d of the answer inverted", at), func(b []byte) []byte {
				b[at] ^= 0xff
				return b
			}, false)
		}
		a.cut()
	}
	p.A.Exchange(p.B, 3000)
	other.cut()
	s.gone("the daemon after answers that a user library could not use")
}

var _ = unusable.Add("user.library.moved", "answers that are cut, of verbs that move a queue", func(t *validate.T) {
	lib := t.UserLibrary()
	s := startStage(t, new(trace), nil)
	g := &garbler{size: map[string]int{}}
	a := s.with(g.over(lib))
	p := a.pair()
	cut := func(b []byte) []byte { return b[:len(b)-1] }
	// A queue whose place the library does not know any more must not be used: it may be that of another one.
	if t.Claims().Has(ci.CapResizeCQ) {
		cq, err := p.A.PD.CreateCQ(ci.CQCreate{Size: 4})
		kit.OK(t, err, "PD.CreateCQ")
		g.with("CQ.Resize", cut, func() { _, _ = cq.Resize(ci.CQResize{Size: 400}) })
		if g.size["CQ.Resize"] > 0 {
			_, err = cq.Poll(make([]ci.WC, 1))
			kit.WantExactly(t, err, "CQ.Poll after a resize whose answer was cut", ci.InvalidCQHandle)
			kit.WantExactly(t, cq.Notify(ci.NotifyNext), "CQ.Notify after a resize whose answer was cut",
				ci.InvalidCQHandle)
		}
		kit.OK(t, cq.Destroy(), "CQ.Destroy after a resize whose answer was cut")
		kit.WantExactly(t, cq.Destroy(), "second CQ.Destroy", ci.InvalidCQHandle)
	}
	if t.Claims().Has(ci.CapSRQ | ci.CapModifySRQDepth) {
		srq, err := p.A.PD.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 4, MaxSGE: 1}})
		kit.OK(t, err, "PD.CreateSRQ")
		g.with("SRQ.Modify", cut, func() {
			_ = srq.Modify(ci.SRQFieldMaxWR, ci.SRQAttr{MaxWR: min(200, t.Attr().MaxSRQWRs)})
		})
		if g.size["SRQ.Modify"] > 0 {
			_, err = srq.PostRecv([]ci.RecvWR{{ID: 1}})
			kit.WantExactly(t, err, "SRQ.PostRecv after a Modify whose answer was cut", ci.InvalidSRQHandle)
		}
		kit.OK(t, srq.Destroy(), "SRQ.Destroy after a Modify whose answer was cut")
	}
	p.A.Exchange(p.B, 100)
	a.cut()
	s.gone("the daemon after answers that a user library could not use")
}, req.SAS2_4_12)
