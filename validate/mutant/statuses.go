package mutant

import (
	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate/mutant/tap"
)

// A substitution replaces the status of a verb. If from is ci.Success, the verb is not called.
type substitution struct {
	name, breaks string
	does         string
	needs        ci.Caps
	verb         string // of the object that the status is about, such as "PD.CreateCQ"
	from, to     ci.Status
}

// substitutions are faults that consist of a wrong status.
var substitutions = []substitution{
	{"status.cq-of-stale-pd", "SAS-2.1-04", "CreateCQ from a destroyed PD fails with InvalidHandle", 0,
		"PD.CreateCQ", ci.InvalidPDHandle, ci.InvalidHandle},
	{"status.no-rdd", "SAS-2.1-05", "AllocRDD fails with InvalidParameter although RD is not claimed", 0,
		"PD.AllocRDD", ci.Unsupported, ci.InvalidParameter},
	{"status.rd-qp", "SAS-2.3-08", "CreateQP of type RD fails with InvalidCQHandle", 0, "PD.CreateQP", ci.Unsupported,
		ci.InvalidCQHandle},
	{"status.cq-query", "SAS-2.2-01", "CQ.Query is not implemented", 0, "CQ.Query", ci.Success, ci.Unsupported},
	{"status.no-pd-of-type", "CI-AllocatePD-01", "AllocatePD fails for every type", 0, "CA.AllocatePD", ci.Success,
		ci.InvalidParameter},
	{"status.fmr-alloc", "CI-AllocFMR-01", "AllocFMR with invalid counts fails with InvalidHandle", ci.CapFMR,
		"PD.AllocFMR", ci.InvalidParameter, ci.InvalidHandle},
	{"status.fast-alloc", "CI-AllocFastReg-01", "AllocFastRegMR of no pages fails with InvalidHandle", ci.CapFastReg,
		"PD.AllocFastRegMR", ci.InvalidParameter, ci.InvalidHandle},
	{"status.close-busy", "CI-CloseCA-01", "Destroy of a CA with objects fails with InvalidCAHandle", 0,
		"CA.Destroy", ci.ResourceBusy, ci.InvalidCAHandle},
	{"status.closed-query", "CI-CloseCA-02", "Query of a closed CA fails with InvalidHandle", 0, "CA.Query",
		ci.InvalidCAHandle, ci.InvalidHandle},
	{"status.mw-type", "CI-CreateMW-02", "CreateMW of an unknown type fails with InvalidMWHandle", ci.CapMW1,
		"PD.CreateMW", ci.InvalidParameter, ci.InvalidMWHandle},
	{"status.qp-limits", "CI-CreateQP-03", "CreateQP with too many segments fails with InvalidParameter", 0,
		"PD.CreateQP", ci.InvalidMaxSGE, ci.InvalidParameter},
	{"status.pd-busy", "CI-DeallocatePD-01", "Destroy of a PD with objects fails with InvalidPDHandle", 0,
		"PD.Destroy", ci.ResourceBusy, ci.InvalidPDHandle},
	{"status.cq-busy", "CI-DestroyCQ-01", "Destroy of a CQ with QPs fails with InvalidCQHandle", 0, "CQ.Destroy",
		ci.ResourceBusy, ci.InvalidCQHandle},
	{"status.cq-stale", "CI-DestroyCQ-02", "Notify of a destroyed CQ fails with InvalidHandle", 0, "CQ.Notify",
		ci.InvalidCQHandle, ci.InvalidHandle},
	{"status.qp-stale", "CI-DestroyQP-01", "Query of a destroyed QP fails with InvalidHandle", 0, "QP.Query",
		ci.InvalidQPHandle, ci.InvalidHandle},
	{"status.nil-handler", "CI-EventHandler-03", "OnEvent of nil fails with Unsupported", ci.CapEventHandlers,
		"CA.OnEvent", ci.InvalidParameter, ci.Unsupported},
	{"status.fmr-map", "CI-MapFMR-03", "FMR.Map with invalid pages fails with InvalidHandle", ci.CapFMR, "FMR.Map",
		ci.InvalidParameter, ci.InvalidHandle},
	{"status.modify-bound", "CI-ModifyMR-04", "Modify of a region with a bound window fails with InvalidMRHandle",
		ci.CapModifyMR | ci.CapMW1, "MR.Modify", ci.ResourceBusy, ci.InvalidMRHandle},
	{"status.shared-stale", "CI-RegisterSMR-03", "RegisterSMR of a destroyed region fails with InvalidHandle",
		ci.CapSharedMR, "PD.RegisterSMR", ci.InvalidMRHandle, ci.InvalidHandle},
	{"status.bind-pd", "CI-BindMW-07", "BindMW of a window of another PD fails with InvalidHandle", ci.CapMW1,
		"QP.BindMW", ci.InvalidPermission, ci.InvalidHandle},
	{"status.dma-nil", "CI-MapDMA-02", "MapDMA of no memory fails with InvalidHandle", ci.CapPhysicalMR, "CA.MapDMA",
		ci.InvalidParameter, ci.InvalidHandle},
	{"status.special-user", "CI-SpecialQP-09", "a process that creates a special QP gets NotFound",
		ci.CapSpecialQP | ci.CapUser, "PD.CreateSpecialQP", ci.InvalidPermission, ci.NotFound},
	{"status.special-reset", "CI-SpecialQP-10", "PostSend to QP1 in Reset fails with InvalidWRType", ci.CapSpecialQP,
		"QP.PostSend", ci.InvalidQPState, ci.InvalidWRType},
}

// Statuses returns mutants that replace one status of a verb.
func Statuses() []Mutant {
	out := make([]Mutant, 0, len(substitutions))
	for _, s := range substitutions {
		out = append(out, Of(s.name, s.breaks, s.does, tap.Layer(s.layer())).Needing(s.needs))
	}
	return out
}

// layer returns the layer that replaces the status.
func (s *substitution) layer() ciwrap.Layer {
	return ciwrap.Layer{CA: func(c ci.CA) ci.CA { return subCA{ciwrap.CA{CA: c}, s} },
		PD:  func(p ci.PD, _ ci.PDType) ci.PD { return subPD{ciwrap.PD{PD: p}, s} },
		CQ:  func(c ci.CQ, _ ci.CQCreate) ci.CQ { return subCQ{ciwrap.CQ{CQ: c}, s} },
		QP:  func(q ci.QP, _ ci.QPCreate) ci.QP { return subQP{ciwrap.QP{QP: q}, s} },
		MR:  func(m ci.MR, _ ciwrap.MROrigin) ci.MR { return subMR{ciwrap.MR{MR: m}, s} },
		FMR: func(f ci.FMR, _ ci.FMRCreate) ci.FMR { return subFMR{ciwrap.FMR{FMR: f}, s} }}
}

// result returns the error in place of err.
func (s *substitution) result(verb string, err error) error {
	if s.verb == verb && ci.StatusOf(err) == s.from {
		return &ci.Error{Verb: verb, Status: s.to}
	}
	return err
}

// call calls a verb that creates an object or returns attributes, and replaces its error. If success is replaced, the
// verb is not called.
func call[V any](s *substitution, verb string, f func() (V, error)) (V, error) {
	if s.verb == verb && s.from == ci.Success {
		var none V
		return none, s.result(verb, nil)
	}
	v, err := f()
	return v, s.result(verb, err)
}

type (
	subCA struct {
		ciwrap.CA
		s *substitution
	}
	subPD struct {
		ciwrap.PD
		s *substitution
	}
	subCQ struct {
		ciwrap.CQ
		s *substitution
	}
	subQP struct {
		ciwrap.QP
		s *substitution
	}
	subMR struct {
		ciwrap.MR
		s *substitution
	}
	subFMR struct {
		ciwrap.FMR
		s *substitution
	}
)

func (c subCA) Query() (*ci.CAAttr, error) { return call(c.s, "CA.Query", c.CA.Query) }

func (c subCA) AllocatePD(typ ci.PDType) (ci.PD, error) {
	return call(c.s, "CA.AllocatePD", func() (ci.PD, error) { return c.CA.AllocatePD(typ) })
}

func (c subCA) OnEvent(fn func(ci.Event), arg any) (ci.Object, error) {
	return call(c.s, "CA.OnEvent", func() (ci.Object, error) { return c.CA.OnEvent(fn, arg) })
}

func (c subCA) MapDMA(m ci.Memory) (ci.DMA, error) {
	return call(c.s, "CA.MapDMA", func() (ci.DMA, error) { return c.CA.MapDMA(m) })
}

func (c subCA) Destroy() error { return c.s.result("CA.Destroy", c.CA.Destroy()) }

func (p subPD) CreateCQ(c ci.CQCreate) (ci.CQ, error) {
	return call(p.s, "PD.CreateCQ", func() (ci.CQ, error) { return p.PD.CreateCQ(c) })
}

func (p subPD) CreateQP(c ci.QPCreate) (ci.QP, error) {
	return call(p.s, "PD.CreateQP", func() (ci.QP, error) { return p.PD.CreateQP(c) })
}

func (p subPD) CreateSpecialQP(port uint8, c ci.QPCreate) (ci.QP, error) {
	return call(p.s, "PD.CreateSpecialQP", func() (ci.QP, error) { return p.PD.CreateSpecialQP(port, c) })
}

func (p subPD) RegisterSMR(src ci.MR, iova uint64, a ci.Access) (ci.MR, error) {
	return call(p.s, "PD.RegisterSMR", func() (ci.MR, error) { return p.PD.RegisterSMR(src, iova, a) })
}

func (p subPD) CreateMW(c ci.MWCreate) (ci.MW, error) {
	return call(p.s, "PD.CreateMW", func() (ci.MW, error) { return p.PD.CreateMW(c) })
}

func (p subPD) AllocFMR(c ci.FMRCreate) (ci.FMR, error) {
	return call(p.s, "PD.AllocFMR", func() (ci.FMR, error) { return p.PD.AllocFMR(c) })
}

func (p subPD) AllocFastRegMR(n int) (ci.MR, error) {
	return call(p.s, "PD.AllocFastRegMR", func() (ci.MR, error) { return p.PD.AllocFastRegMR(n) })
}

func (p subPD) AllocRDD() (ci.RDD, error) { return call(p.s, "PD.AllocRDD", p.PD.AllocRDD) }
func (p subPD) Destroy() error            { return p.s.result("PD.Destroy", p.PD.Destroy()) }

func (c subCQ) Query() (ci.CQAttr, error)   { return call(c.s, "CQ.Query", c.CQ.Query) }
func (c subCQ) Notify(when ci.Notify) error { return c.s.result("CQ.Notify", c.CQ.Notify(when)) }
func (c subCQ) Destroy() error              { return c.s.result("CQ.Destroy", c.CQ.Destroy()) }

func (q subQP) Query() (ci.QPAttr, error) { return call(q.s, "QP.Query", q.QP.Query) }

func (q subQP) PostSend(wrs []ci.SendWR) (int, error) {
	n, err := q.QP.PostSend(wrs)
	return n, q.s.result("QP.PostSend", err)
}

func (q subQP) BindMW(id uint64, flags ci.SendFlags, b ci.MWBind) (ci.Key, error) {
	return call(q.s, "QP.BindMW", func() (ci.Key, error) { return q.QP.BindMW(id, flags, b) })
}

func (m subMR) Modify(set ci.MRField, pd ci.PD, c ci.MRCreate) error {
	return m.s.result("MR.Modify", m.MR.Modify(set, pd, c))
}

func (f subFMR) Map(pages []uint64, iova uint64) (ci.Region, error) {
	return call(f.s, "FMR.Map", func() (ci.Region, error) { return f.FMR.Map(pages, iova) })
}
