package mutant

import (
	"slices"
	"strings"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate/mutant/tap"
)

// A tolerated verb succeeds on a destroyed object, without an effect.
type tolerated struct {
	breaks string
	verb   string // of staleVerbs in cisuite: object.verb
	needs  ci.Caps
}

// toleratedVerbs are those that no other mutant breaks.
var toleratedVerbs = []tolerated{
	{"CI-CloseCA-02", "ca.modify", 0},
	{"CI-CloseCA-02", "ca.local-mad", ci.CapLocalMAD},
	{"CI-DestroyCQ-02", "cq.poll", 0},
	{"CI-DestroyCQ-02", "cq.notify", 0},
	{"CI-DestroyCQ-02", "cq.notify-after", ci.CapNotifyAfter},
	{"CI-DestroyCQ-02", "cq.peek", ci.CapPeek},
	{"CI-DestroyCQ-02", "cq.query", 0},
	{"CI-DestroyCQ-02", "cq.resize", ci.CapResizeCQ},
	{"CI-DestroyCQ-02", "cq.modify", ci.CapModeration},
	{"CI-DestroyQP-01", "qp.post-send", 0},
	{"CI-DestroyQP-01", "qp.post-recv", 0},
	{"CI-DestroyQP-01", "qp.query", 0},
	{"CI-DestroyQP-01", "qp.modify", 0},
	{"CI-DestroyQP-01", "qp.bind-mw", ci.CapMW1},
	{"CI-DestroySRQ-02", "srq.post-recv", ci.CapSRQ},
	{"CI-DestroySRQ-02", "srq.query", ci.CapSRQ},
	{"CI-DestroySRQ-02", "srq.modify", ci.CapSRQ},
	{"CI-DeregisterMR-04", "mr.query", 0},
	{"CI-DeregisterMR-04", "mr.modify", ci.CapModifyMR},
	{"CI-DestroyMW-01", "mw1.query", ci.CapMW1},
	{"CI-DestroyMW-01", "mw2.query", ci.CapMW2},
	{"CI-DeallocFMR-01", "fmr.map", ci.CapFMR},
	{"CI-DestroyAV-01", "av.query", ci.CapUD | ci.CapAV},
	{"CI-DestroyAV-01", "av.modify", ci.CapUD | ci.CapAV},
}

// staleDestroys are the kinds of objects whose second Destroy succeeds.
var staleDestroys = []tolerated{
	{"CI-CloseCA-02", "ca.destroy", 0},
	{"CI-DeallocatePD-02", "pd.destroy", 0},
	{"CI-DestroyCQ-02", "cq.destroy", 0},
	{"CI-DestroyQP-01", "qp.destroy", 0},
	{"CI-DestroySRQ-02", "srq.destroy", ci.CapSRQ},
	{"CI-DeregisterMR-04", "mr.destroy", 0},
	{"CI-DestroyMW-01", "mw1.destroy", ci.CapMW1},
	{"CI-DestroyMW-01", "mw2.destroy", ci.CapMW2},
	{"CI-DeallocFMR-01", "fmr.destroy", ci.CapFMR},
	{"CI-DestroyAV-01", "av.destroy", ci.CapUD | ci.CapAV},
}

// staleParents are the verbs by which a destroyed PD creates an object: it does so in the PD that was allocated last.
var staleParents = []tolerated{
	{"CI-DeallocatePD-02", "pd.create-av", ci.CapAV},
	{"CI-DeallocatePD-02", "pd.create-srq", ci.CapSRQ},
	{"CI-DeallocatePD-02", "pd.create-qp", 0},
	{"CI-DeallocatePD-02", "pd.register-mr", 0},
	{"CI-DeallocatePD-02", "pd.alloc-fast-reg-mr", ci.CapFastReg},
	{"CI-DeallocatePD-02", "pd.alloc-fmr", ci.CapFMR},
	{"CI-DeallocatePD-02", "pd.create-mw1", ci.CapMW1},
	{"CI-DeallocatePD-02", "pd.create-mw2", ci.CapMW2},
}

// Stale returns mutants in which one verb works on destroyed objects.
func Stale() []Mutant {
	var out []Mutant
	for _, v := range slices.Concat(toleratedVerbs, staleDestroys, staleParents) {
		out = append(out, Of("stale."+v.verb, v.breaks, "the verb "+v.verb+" works on a destroyed object",
			tap.Layer(v.layer())).By("stale."+v.verb).Needing(v.needs))
	}
	return out
}

// past replaces the error of a verb on a destroyed object by success.
func (v tolerated) past(verb string, err error) error {
	if v.verb == verb && slices.Contains(handleStatuses, ci.StatusOf(err)) {
		return nil
	}
	return err
}

var handleStatuses = []ci.Status{
	ci.InvalidCAHandle, ci.InvalidPDHandle, ci.InvalidCQHandle, ci.InvalidQPHandle, ci.InvalidSRQHandle,
	ci.InvalidMRHandle, ci.InvalidMWHandle, ci.InvalidFMRHandle, ci.InvalidAVHandle,
}

func (v tolerated) layer() ciwrap.Layer {
	newest := &atomic.Pointer[ci.PD]{}
	return ciwrap.Layer{
		CA: func(c ci.CA) ci.CA { return tolerantCA{ciwrap.CA{CA: c}, v} },
		PD: func(p ci.PD, _ ci.PDType) ci.PD {
			if !strings.HasPrefix(v.verb, "pd.") {
				return p
			}
			newest.Store(&p)
			return tolerantPD{ciwrap.PD{PD: p}, v, newest}
		},
		CQ:  func(q ci.CQ, _ ci.CQCreate) ci.CQ { return tolerantCQ{ciwrap.CQ{CQ: q}, v} },
		QP:  func(q ci.QP, _ ci.QPCreate) ci.QP { return tolerantQP{ciwrap.QP{QP: q}, v} },
		SRQ: func(q ci.SRQ, _ ci.SRQCreate) ci.SRQ { return tolerantSRQ{ciwrap.SRQ{SRQ: q}, v} },
		MR:  func(m ci.MR, _ ciwrap.MROrigin) ci.MR { return tolerantMR{ciwrap.MR{MR: m}, v} },
		MW: func(w ci.MW, c ci.MWCreate) ci.MW {
			name := "mw1."
			if c.Type == ci.MWType2 {
				name = "mw2."
			}
			return tolerantMW{ciwrap.MW{MW: w}, v, name}
		},
		FMR: func(f ci.FMR, _ ci.FMRCreate) ci.FMR { return tolerantFMR{ciwrap.FMR{FMR: f}, v} },
		AV:  func(a ci.AV, _ ci.AVAttr) ci.AV { return tolerantAV{ciwrap.AV{AV: a}, v} },
	}
}

type (
	tolerantCA struct {
		ciwrap.CA
		v tolerated
	}
	tolerantPD struct {
		ciwrap.PD
		v      tolerated
		newest *atomic.Pointer[ci.PD]
	}
	tolerantCQ struct {
		ciwrap.CQ
		v tolerated
	}
	tolerantQP struct {
		ciwrap.QP
		v tolerated
	}
	tolerantSRQ struct {
		ciwrap.SRQ
		v tolerated
	}
	tolerantMR struct {
		ciwrap.MR
		v tolerated
	}
	tolerantMW struct {
		ciwrap.MW
		v    tolerated
		kind string
	}
	tolerantFMR struct {
		ciwrap.FMR
		v tolerated
	}
	tolerantAV struct {
		ciwrap.AV
		v tolerated
	}
)

func (c tolerantCA) Modify(port uint8, set ci.PortField, a ci.PortModify) error {
	return c.v.past("ca.modify", c.CA.Modify(port, set, a))
}

func (c tolerantCA) LocalMAD(port uint8, src *ci.AVAttr, in, out *ci.MAD) error {
	return c.v.past("ca.local-mad", c.CA.LocalMAD(port, src, in, out))
}

func (c tolerantCA) Destroy() error { return c.v.past("ca.destroy", c.CA.Destroy()) }

// inNewest calls a create verb of a PD and, if that is destroyed, of the newest one.
func inNewest[O any](p tolerantPD, verb string, create func(ci.PD) (O, error)) (O, error) {
	o, err := create(p.PD.PD)
	if p.v.verb == verb && ci.StatusOf(err) == ci.InvalidPDHandle {
		return create(*p.newest.Load())
	}
	return o, err
}

func (p tolerantPD) CreateAV(a ci.AVAttr) (ci.AV, error) {
	return inNewest(p, "pd.create-av", func(p ci.PD) (ci.AV, error) { return p.CreateAV(a) })
}

func (p tolerantPD) CreateSRQ(c ci.SRQCreate) (ci.SRQ, error) {
	return inNewest(p, "pd.create-srq", func(p ci.PD) (ci.SRQ, error) { return p.CreateSRQ(c) })
}

func (p tolerantPD) CreateQP(c ci.QPCreate) (ci.QP, error) {
	return inNewest(p, "pd.create-qp", func(p ci.PD) (ci.QP, error) { return p.CreateQP(c) })
}

func (p tolerantPD) RegisterMR(c ci.MRCreate) (ci.MR, error) {
	return inNewest(p, "pd.register-mr", func(p ci.PD) (ci.MR, error) { return p.RegisterMR(c) })
}

func (p tolerantPD) AllocFastRegMR(n int) (ci.MR, error) {
	return inNewest(p, "pd.alloc-fast-reg-mr", func(p ci.PD) (ci.MR, error) { return p.AllocFastRegMR(n) })
}

func (p tolerantPD) AllocFMR(c ci.FMRCreate) (ci.FMR, error) {
	return inNewest(p, "pd.alloc-fmr", func(p ci.PD) (ci.FMR, error) { return p.AllocFMR(c) })
}

func (p tolerantPD) CreateMW(c ci.MWCreate) (ci.MW, error) {
	verb := "pd.create-mw1"
	if c.Type == ci.MWType2 {
		verb = "pd.create-mw2"
	}
	return inNewest(p, verb, func(p ci.PD) (ci.MW, error) { return p.CreateMW(c) })
}

func (p tolerantPD) Destroy() error { return p.v.past("pd.destroy", p.PD.Destroy()) }

func (q tolerantCQ) Poll(wc []ci.WC) (int, error) {
	n, err := q.CQ.Poll(wc)
	return n, q.v.past("cq.poll", err)
}

func (q tolerantCQ) Notify(when ci.Notify) error  { return q.v.past("cq.notify", q.CQ.Notify(when)) }
func (q tolerantCQ) NotifyAfter(n int) error      { return q.v.past("cq.notify-after", q.CQ.NotifyAfter(n)) }
func (q tolerantCQ) Modify(m ci.Moderation) error { return q.v.past("cq.modify", q.CQ.Modify(m)) }
func (q tolerantCQ) Destroy() error               { return q.v.past("cq.destroy", q.CQ.Destroy()) }

func (q tolerantCQ) Peek() (int, error) {
	n, err := q.CQ.Peek()
	return n, q.v.past("cq.peek", err)
}

func (q tolerantCQ) Query() (ci.CQAttr, error) {
	a, err := q.CQ.Query()
	return a, q.v.past("cq.query", err)
}

func (q tolerantCQ) Resize(r ci.CQResize) (int, error) {
	n, err := q.CQ.Resize(r)
	return n, q.v.past("cq.resize", err)
}

func (q tolerantQP) PostSend(wrs []ci.SendWR) (int, error) {
	n, err := q.QP.PostSend(wrs)
	return n, q.v.past("qp.post-send", err)
}

func (q tolerantQP) PostRecv(wrs []ci.RecvWR) (int, error) {
	n, err := q.QP.PostRecv(wrs)
	return n, q.v.past("qp.post-recv", err)
}

func (q tolerantQP) Query() (ci.QPAttr, error) {
	a, err := q.QP.Query()
	return a, q.v.past("qp.query", err)
}

func (q tolerantQP) Modify(set ci.QPField, a ci.QPAttr) error {
	return q.v.past("qp.modify", q.QP.Modify(set, a))
}

func (q tolerantQP) BindMW(id uint64, flags ci.SendFlags, b ci.MWBind) (ci.Key, error) {
	key, err := q.QP.BindMW(id, flags, b)
	return key, q.v.past("qp.bind-mw", err)
}

func (q tolerantQP) Destroy() error { return q.v.past("qp.destroy", q.QP.Destroy()) }

func (s tolerantSRQ) PostRecv(wrs []ci.RecvWR) (int, error) {
	n, err := s.SRQ.PostRecv(wrs)
	return n, s.v.past("srq.post-recv", err)
}

func (s tolerantSRQ) Query() (ci.SRQAttr, error) {
	a, err := s.SRQ.Query()
	return a, s.v.past("srq.query", err)
}

func (s tolerantSRQ) Modify(set ci.SRQField, a ci.SRQAttr) error {
	return s.v.past("srq.modify", s.SRQ.Modify(set, a))
}

func (s tolerantSRQ) Destroy() error { return s.v.past("srq.destroy", s.SRQ.Destroy()) }

func (m tolerantMR) Query() (ci.MRAttr, error) {
	a, err := m.MR.Query()
	return a, m.v.past("mr.query", err)
}

func (m tolerantMR) Modify(set ci.MRField, pd ci.PD, c ci.MRCreate) error {
	return m.v.past("mr.modify", m.MR.Modify(set, pd, c))
}

func (m tolerantMR) Destroy() error { return m.v.past("mr.destroy", m.MR.Destroy()) }

func (w tolerantMW) Query() (ci.MWAttr, error) {
	a, err := w.MW.Query()
	return a, w.v.past(w.kind+"query", err)
}

func (w tolerantMW) Destroy() error { return w.v.past(w.kind+"destroy", w.MW.Destroy()) }

func (f tolerantFMR) Map(pages []uint64, iova uint64) (ci.Region, error) {
	r, err := f.FMR.Map(pages, iova)
	return r, f.v.past("fmr.map", err)
}

func (f tolerantFMR) Destroy() error { return f.v.past("fmr.destroy", f.FMR.Destroy()) }

func (a tolerantAV) Query() (ci.AVAttr, ci.PD, error) {
	x, pd, err := a.AV.Query()
	return x, pd, a.v.past("av.query", err)
}

func (a tolerantAV) Modify(x ci.AVAttr) error { return a.v.past("av.modify", a.AV.Modify(x)) }
func (a tolerantAV) Destroy() error           { return a.v.past("av.destroy", a.AV.Destroy()) }
