package usersuite

import (
	"time"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

var _ = libraries.Case(validate.Case{
	ID:    "user.library.vain",
	Title: "large queues that a driver creates in vain, again and again",
	Run:   libraryVain,
	// Large queues take time on odd adapters.
	Timeout: 60 * time.Second,
	Needs:   validate.Needs{Caps: ci.CapUser},
}, req.SAS2_4_06)

// libraryVain creates large queues with private data that has too little room for the driver's answer. Their creates
// need, in total, more memory than a driver shares with a process, so that a queue is noticed that one leaves behind.
func libraryVain(t *validate.T) {
	const (
		total = 280 << 20
		entry = 32 // bytes that a completion or a request needs, at least
	)
	lib := *t.UserLibrary()
	isNarrow, hits := false, map[string]bool{}
	isOn := func(string) bool { return isNarrow }
	lib.CreateCQ = narrow(lib.CreateCQ, "PD.CreateCQ", isOn, hits)
	lib.CreateQP = narrow(lib.CreateQP, "PD.CreateQP", isOn, hits)
	lib.CreateSRQ = narrow(lib.CreateSRQ, "PD.CreateSRQ", isOn, hits)
	s := startStage(t, new(trace), nil)
	a := s.with(&lib)
	p := a.pair()
	pd, cq, at := p.A.PD, p.A.CQ, t.Attr()
	cqes := min(at.MaxCQEs, 1<<16)
	qp := func(send, recv int) func() (ci.Object, error) {
		return func() (ci.Object, error) {
			return pd.CreateQP(ci.QPCreate{SendCQ: cq.CQ, RecvCQ: cq.CQ, QPCaps: ci.QPCaps{SendDepth: send,
				RecvDepth: recv, SendSGE: 1, RecvSGE: 1}})
		}
	}
	for _, v := range kit.Variants(t, "", []struct {
		name, verb string
		depth      int
		caps       ci.Caps
		call       func() (ci.Object, error)
	}{
		{"CQ", "PD.CreateCQ", cqes, 0, func() (ci.Object, error) {
			return pd.CreateCQ(ci.CQCreate{Size: cqes})
		}},
		{"QP with many receives", "PD.CreateQP", at.MaxWRs, 0, qp(1, at.MaxWRs)},
		{"QP with many sends", "PD.CreateQP", at.MaxWRs, 0, qp(at.MaxWRs, 1)},
		{"SRQ", "PD.CreateSRQ", at.MaxSRQWRs, ci.CapSRQ, func() (ci.Object, error) {
			return pd.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: at.MaxSRQWRs, MaxSGE: min(at.MaxSRQSGEs, 1)}})
		}},
	}) {
		if !t.Claims().Has(v.caps) {
			continue
		}
		obj, err := v.call()
		if ci.StatusOf(err) == ci.InsufficientResources {
			t.Note("%s of a large %s: the process has no memory for one", v.verb, v.name)
			continue
		}
		kit.OK(t, err, v.verb+" of a large "+v.name)
		kit.Destroy(t, obj, v.name)
		for n := range min(total/(v.depth*entry), 1000) {
			isNarrow = true
			obj, err = v.call()
			isNarrow = false
			if !hits[v.verb] { // the driver has nothing to answer
				kit.OK(t, err, v.verb+" of a large "+v.name)
				kit.Destroy(t, obj, v.name)
				break
			}
			t.Step("create %d", n+1)
			kit.WantRefused(t, obj, err, v.verb+" with too little room", ci.InvalidParameter, ci.InsufficientResources)
		}
		obj, err = v.call()
		kit.OK(t, err, v.verb+" of a large "+v.name+" after creates that failed")
		kit.Destroy(t, obj, v.name)
	}
	p.A.Exchange(p.B, 100)
	a.cut()
	s.gone("the daemon after creates that failed, and after the application was cut")
}
