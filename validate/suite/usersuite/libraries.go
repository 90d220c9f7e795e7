package usersuite

import (
	"fmt"
	"time"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/explore"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// The driver's own user library. (SAS 2.4.)
var libraries = area().Needing(validate.Needs{Caps: ci.CapUser})

var _ = libraries.Case(validate.Case{
	ID:    "user.library.traffic",
	Title: "traffic of a process with the driver's own user library",
	Run:   libraryTraffic,
	Needs: validate.Needs{Caps: ci.CapUser},
	// Opening the adapter and creating objects with the library is what the case tests.
	TestsSetup: true,
}, req.SAS2_4_01)

func libraryTraffic(t *validate.T) {
	lib := *t.UserLibrary()
	s := startStage(t, new(trace), nil)
	kit.Equal(t, "UserLibrary.Name", lib.Name, t.HCA().Info().Library)
	a := s.with(&lib)
	p := a.pair()
	_, accompanied := ci.UserHandle[any](p.A.QP.CA.CA)
	kit.True(t, accompanied, "the library's handle of the CA", "one", "none")
	s.trace.take()
	for _, n := range []int{0, 1, 3000, 20000} {
		p.A.Exchange(p.B, n)
		p.B.Exchange(p.A, n)
	}
	for _, verb := range []string{"QP.PostSend", "QP.PostRecv", "CQ.Poll"} {
		if n := s.trace.count("message " + verb); n > 0 {
			t.Note("%d calls of %s crossed the process boundary: the library does not replace it", n, verb)
		}
	}
	a.cut()
	s.gone("the daemon after the application was cut")
}

var _ = libraries.Case(validate.Case{
	ID:      "user.library.model",
	Title:   "verbs of a process with the driver's own user library, compared with a model",
	Run:     libraryModel,
	Needs:   validate.Needs{Caps: ci.CapUser, MayImpair: true},
	Timeout: 2 * time.Minute,
	Final:   true,
}, libraries.Must("CI-User-02", "SAS 2.4", "user library",
	"A process with the driver's user library has the same results of verbs, completions, callbacks, events and bytes "+
		"as a consumer in the process of the driver."))

func libraryModel(t *validate.T) {
	lib := *t.UserLibrary()
	s := startStage(t, new(trace), nil)
	a := s.with(&lib)
	var hcas []ci.HCA
	for i := range s.guids {
		hcas = append(hcas, a.hca(i))
	}
	explore.Judge(t, explore.Config{Rows: 80, Traces: 160, Least: 40, Time: 3 * time.Second}, hcas)
}

var _ = libraries.Add("user.library.room", "private data with one byte too little room for the driver's answer",
	libraryRoom, req.SAS2_4_06)

// narrow returns h with an output that is one byte shorter while isOn returns true for the verb. It adds to hits the
// verbs that have an output.
func narrow[A any](h ci.UserFallibleHook[A], verb string, isOn func(string) bool,
	hits map[string]bool) ci.UserFallibleHook[A] {
	pre := h.Pre
	if pre == nil {
		return h
	}
	h.Pre = func(a *A, ub *ci.UserBuffer) error {
		err := pre(a, ub)
		if err == nil && ub != nil && cap(ub.Out) > 0 && isOn(verb) {
			hits[verb] = true
			ub.Out = ub.Out[: 0 : cap(ub.Out)-1]
		}
		return err
	}
	return h
}

func libraryRoom(t *validate.T) {
	lib := *t.UserLibrary()
	on, hits := "", map[string]bool{}
	isOn := func(verb string) bool { return verb == on }
	lib.OpenCA = narrow(lib.OpenCA, "HCA.OpenCA", isOn, hits)
	lib.AllocatePD = narrow(lib.AllocatePD, "CA.AllocatePD", isOn, hits)
	lib.CreateCQ = narrow(lib.CreateCQ, "PD.CreateCQ", isOn, hits)
	lib.CreateQP = narrow(lib.CreateQP, "PD.CreateQP", isOn, hits)
	lib.CreateSRQ = narrow(lib.CreateSRQ, "PD.CreateSRQ", isOn, hits)
	lib.CreateAV = narrow(lib.CreateAV, "PD.CreateAV", isOn, hits)
	lib.CreateMW = narrow(lib.CreateMW, "PD.CreateMW", isOn, hits)
	s := startStage(t, new(trace), nil)
	a := s.with(&lib)
	p := a.pair()
	pd, cq := p.A.PD, p.A.CQ
	for _, v := range kit.Variants(t, "", []struct {
		name string
		caps ci.Caps
		call func() (ci.Object, error)
	}{
		{"HCA.OpenCA", 0, func() (ci.Object, error) { return a.hca(0).OpenCA(s.guids[0], func(ci.Event) {}, nil) }},
		{"CA.AllocatePD", 0, func() (ci.Object, error) { return p.A.QP.CA.AllocatePD(ci.PDNormal) }},
		{"PD.CreateCQ", 0, func() (ci.Object, error) { return pd.CreateCQ(ci.CQCreate{Size: 5}) }},
		{"PD.CreateQP", 0, func() (ci.Object, error) {
			return pd.CreateQP(ci.QPCreate{QPCaps: ci.QPCaps{SendDepth: 2, RecvDepth: 2, SendSGE: 1, RecvSGE: 1},
				SendCQ: cq.CQ, RecvCQ: cq.CQ})
		}},
		{"PD.CreateSRQ", ci.CapSRQ, func() (ci.Object, error) {
			return pd.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 3, MaxSGE: 1}})
		}},
		{"PD.CreateAV", ci.CapAV, func() (ci.Object, error) {
			return pd.CreateAV(p.A.QP.CA.AddressOf(p.B.QP.CA))
		}},
		{"PD.CreateMW", ci.CapMW1, func() (ci.Object, error) { return pd.CreateMW(ci.MWCreate{Type: ci.MWType1}) }},
	}) {
		if !p.A.QP.CA.Attr.Caps.Has(v.caps) { // of the process: the library may withhold claims of the driver
			continue
		}
		on = v.name
		obj, err := v.call()
		on = ""
		if hits[v.name] {
			kit.WantRefused(t, obj, err, v.name+" with too little room", ci.InvalidParameter,
				ci.InsufficientResources)
			obj, err = v.call()
		}
		kit.OK(t, err, v.name+" with room")
		kit.Destroy(t, obj, v.name)
	}
	p.A.Exchange(p.B, 100)
	a.cut()
	s.gone("the daemon after creates that failed, and after the application was cut")
}

var _ = libraries.Case(validate.Case{
	ID:    "user.library.full",
	Title: "a process that uses up the memory of its queues",
	Run:   libraryFull,
	// Large queues take time on odd adapters.
	Timeout: 60 * time.Second,
	Needs:   validate.Needs{Caps: ci.CapUser},
}, req.SAS2_4_06)

// libraryFull creates large CQs until the driver has no memory left for queues of the process, and then smaller ones.
// Each further verb that needs memory fails and changes nothing.
func libraryFull(t *validate.T) {
	const most = 6 // of one size: a driver may have more memory than a case should use
	lib := *t.UserLibrary()
	s := startStage(t, new(trace), nil)
	a := s.with(&lib)
	p := a.pair()
	pd, claims := p.A.PD, t.Claims()
	size := t.Attr().MaxCQEs
	newCQ := func(n int) (ci.CQ, error) { return pd.CreateCQ(ci.CQCreate{Size: n}) }
	small, err := newCQ(5)
	kit.OK(t, err, "PD.CreateCQ")
	kit.Own(t, small, "CQ")
	var srq ci.SRQ
	if claims.Has(ci.CapSRQ) {
		srq, err = pd.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 4, MaxSGE: 1}})
		kit.OK(t, err, "PD.CreateSRQ")
		kit.Own(t, srq, "SRQ")
	}
	var made []ci.CQ
	largest, isFull := 0, false
	for n := size; n >= 8; n /= 2 {
		isFull = false
		for range most {
			cq, err := newCQ(n)
			if err != nil {
				kit.WantRefused(t, cq, err, "PD.CreateCQ without memory", ci.InsufficientResources)
				isFull = true
				if n <= t.Attr().MaxWRs { // a request needs more than a completion
					large, sges := t.Attr().MaxWRs, min(t.Attr().MaxSGEs, 8)
					for _, c := range []ci.QPCaps{{SendDepth: large, RecvDepth: 1, SendSGE: sges, RecvSGE: 1},
						{SendDepth: 1, RecvDepth: large, SendSGE: 1, RecvSGE: sges}} {
						qp, err := pd.CreateQP(ci.QPCreate{QPCaps: c, SendCQ: p.A.CQ.CQ, RecvCQ: p.A.CQ.CQ})
						kit.WantRefused(t, qp, err, fmt.Sprintf("PD.CreateQP of depths %d and %d without memory",
							c.SendDepth, c.RecvDepth), ci.InsufficientResources)
					}
				}
				break
			}
			made = append(made, kit.Own(t, cq, "CQ"))
			largest = max(largest, n)
		}
		if !isFull {
			break
		}
	}
	if !isFull {
		t.Note("%d CQs of up to %d entries do not use up the memory of a process", len(made), size)
	}
	depth, larger := min(500, t.Attr().MaxWRs), min(5000, size)
	caps := ci.QPCaps{SendDepth: depth, RecvDepth: depth, SendSGE: 1, RecvSGE: 1}
	create := func() (ci.Object, error) {
		return pd.CreateQP(ci.QPCreate{QPCaps: caps, SendCQ: p.A.CQ.CQ, RecvCQ: p.A.CQ.CQ})
	}
	for range 3 {
		if !isFull {
			break
		}
		qp, err := create()
		kit.WantRefused(t, qp, err, "PD.CreateQP without memory", ci.InsufficientResources)
		before, err := small.Query()
		kit.OK(t, err, "CQ.Query")
		if claims.Has(ci.CapResizeCQ) {
			_, err = small.Resize(ci.CQResize{Size: larger})
			kit.Want(t, err, "CQ.Resize without memory", ci.InsufficientResources)
		}
		after, err := small.Query()
		kit.OK(t, err, "CQ.Query")
		kit.Equal(t, "CQAttr after the rejected CQ.Resize", after, before)
		if srq != nil {
			other, err := pd.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 2000, MaxSGE: 4}})
			kit.WantRefused(t, other, err, "PD.CreateSRQ without memory", ci.InsufficientResources)
		}
		if srq != nil && claims.Has(ci.CapModifySRQDepth) {
			err := srq.Modify(ci.SRQFieldMaxWR, ci.SRQAttr{MaxWR: 2000})
			kit.Want(t, err, "SRQ.Modify of the depth without memory", ci.InsufficientResources)
		}
		p.A.Exchange(p.B, 100)
	}
	for i, cq := range made {
		kit.Destroy(t, cq, "CQ")
		if i > 1 {
			continue
		}
		qp, err := create()
		kit.OK(t, err, "PD.CreateQP after memory was released")
		kit.Destroy(t, kit.Own(t, qp, "QP"), "QP")
	}
	again, err := newCQ(largest)
	kit.OK(t, err, "PD.CreateCQ of the largest size that was possible, after all memory was released")
	kit.Destroy(t, kit.Own(t, again, "CQ"), "CQ")
	if claims.Has(ci.CapResizeCQ) {
		_, err = small.Resize(ci.CQResize{Size: larger})
		kit.OK(t, err, "CQ.Resize after memory was released")
	}
	p.A.Exchange(p.B, 100)
	a.cut()
	s.gone("the daemon after the memory of a process was used up")
}

var _ = libraries.Needing(validate.Needs{Caps: ci.CapUser}).With(validate.Case{Timeout: 60 * time.Second}).Add(
	"user.library.reuse", "a process that creates and destroys large queues again and again", libraryReuse,
	req.SAS2_4_06)

// libraryReuse creates and destroys queues of each kind that need, in total, far more memory than a driver shares with
// a process, so that a queue whose memory is not used again is noticed.
func libraryReuse(t *validate.T) {
	const total = 280 << 20
	lib := *t.UserLibrary()
	s := startStage(t, new(trace), nil)
	a := s.with(&lib)
	p := a.pair()
	attr := t.Attr()
	const entry = 64 // bytes that a request needs, at least
	depth := min(attr.MaxWRs, 1<<14)
	qp := func(send, recv int) func() (ci.Object, error) {
		c := ci.QPCreate{QPCaps: ci.QPCaps{SendDepth: send, RecvDepth: recv, SendSGE: 1, RecvSGE: 1},
			SendCQ: p.A.CQ.CQ, RecvCQ: p.A.CQ.CQ}
		if send > recv {
			c.SendSGE = max(1, min(attr.MaxSGEs, 16))
		} else {
			c.RecvSGE = max(1, min(attr.MaxSGEs, 16))
		}
		return func() (ci.Object, error) { return p.A.PD.CreateQP(c) }
	}
	size, srqDepth := min(attr.MaxCQEs, 1<<16), min(attr.MaxSRQWRs, 1<<14)
	for _, x := range kit.Variants(t, "", []struct {
		what   string
		bytes  int // of each object, at least
		create func() (ci.Object, error)
		needs  ci.Caps
	}{
		{"a QP with a large send queue", depth * entry * 4, qp(depth, 1), 0},
		{"a QP with a large receive queue", depth * entry * 4, qp(1, depth), 0},
		{"a large CQ", size * 32, func() (ci.Object, error) { return p.A.PD.CreateCQ(ci.CQCreate{Size: size}) }, 0},
		{"a large SRQ", srqDepth * entry, func() (ci.Object, error) {
			return p.A.PD.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: srqDepth, MaxSGE: 1}})
		}, ci.CapSRQ},
	}) {
		if !t.Claims().Has(x.needs) {
			continue
		}
		rounds := min(total/x.bytes, 1000)
		for i := range rounds {
			o, err := x.create()
			kit.OK(t, err, fmt.Sprintf("the create of %s, number %d", x.what, i+1))
			kit.Destroy(t, kit.Own(t, o, "queue"), x.what)
		}
	}
	p.A.Exchange(p.B, 100)
	a.cut()
	s.gone("the daemon after large queues")
}

var _ = libraries.Needing(validate.Needs{Caps: ci.CapUser}).With(validate.Case{Timeout: 60 * time.Second}).Add(
	"user.library.refused", "resizes with one byte too little room for the driver's answer, again and again",
	libraryRefused, req.SAS2_4_06)

// libraryRefused has resizes refused that need, in total, more memory than a driver shares with a process, so that a
// queue is noticed that a refused resize leaves behind.
func libraryRefused(t *validate.T) {
	const total = 280 << 20
	lib := *t.UserLibrary()
	isNarrow, hits := false, 0
	narrow := func(ub *ci.UserBuffer) {
		if isNarrow && ub != nil && cap(ub.Out) > 0 {
			hits++
			ub.Out = ub.Out[: 0 : cap(ub.Out)-1]
		}
	}
	if pre := lib.ResizeCQ.Pre; pre != nil {
		lib.ResizeCQ.Pre = func(a *ci.UserResizeCQ, ub *ci.UserBuffer) error {
			defer narrow(ub)
			return pre(a, ub)
		}
	}
	if pre := lib.ModifySRQ.Pre; pre != nil {
		lib.ModifySRQ.Pre = func(a *ci.UserModifySRQ, ub *ci.UserBuffer) error {
			defer narrow(ub)
			return pre(a, ub)
		}
	}
	s := startStage(t, new(trace), nil)
	a := s.with(&lib)
	p := a.pair()
	attr := t.Attr()
	refused := func(what string, bytes int, resize func() error, query func() any) {
		before := query()
		isNarrow, hits = true, 0
		for range total / bytes {
			if err := resize(); hits > 0 {
				kit.Want(t, err, what+" with too little room", ci.InvalidParameter, ci.InsufficientResources)
				continue
			}
			break // the library needs no answer
		}
		isNarrow = false
		if hits > 0 {
			kit.Equal(t, "attributes after "+what+" with too little room", query(), before)
		}
		p.A.Exchange(p.B, 100)
		kit.OK(t, resize(), what+" with room")
	}
	if t.Claims().Has(ci.CapResizeCQ) {
		size := min(attr.MaxCQEs, 1<<16)
		const entry = 32 // bytes that a completion needs, at least
		refused("CQ.Resize", size*entry, func() error {
			_, err := p.A.CQ.Resize(ci.CQResize{Size: size})
			return err
		}, func() any {
			q, err := p.A.CQ.Query()
			kit.OK(t, err, "CQ.Query")
			return q
		})
	}
	if t.Claims().Has(ci.CapSRQ | ci.CapModifySRQDepth) {
		srq, err := p.A.PD.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 4, MaxSGE: 1}})
		kit.OK(t, err, "PD.CreateSRQ")
		kit.Own(t, srq, "SRQ")
		n, err := srq.PostRecv(p.A.RecvWRs(3, 16))
		kit.WantTaken(t, "SRQ.PostRecv", n, err, 3)
		depth := min(attr.MaxSRQWRs, 1<<16)
		const entry = 32 // bytes that a receive needs, at least
		refused("SRQ.Modify of the depth", depth*entry, func() error {
			return srq.Modify(ci.SRQFieldMaxWR, ci.SRQAttr{MaxWR: depth})
		}, func() any {
			q, err := srq.Query()
			kit.OK(t, err, "SRQ.Query")
			return q
		})
	}
	p.A.Exchange(p.B, 100)
	a.cut()
	s.gone("the daemon after resizes that were refused")
}
