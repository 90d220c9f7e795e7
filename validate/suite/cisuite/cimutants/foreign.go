package cimutants

import (
	"slices"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate/mutant"
	"ciddk/validate/mutant/tap"
)

// All returns the mutants of all areas.
func All() []mutant.Mutant { return slices.Concat(foreigns, invalidates, arguments, shares) }

// foreigns are drivers with a fault in the handling of objects of another CA.
var foreigns = []mutant.Mutant{
	foreign("ca.foreign-cq", "CreateQP with a CQ of another CA fails with InvalidCQSize", 0,
		ofPD(func(p ciwrap.PD) ci.PD { return foreignCQ{p} })),
	foreign("foreign.bind-mw", "BindMW accepts a window of another CA and does nothing", ci.CapMW1,
		tap.QP(func(q ci.QP, _ ci.QPCreate) ci.QP { return foreignBind{ciwrap.QP{QP: q}, ci.InvalidMWHandle, nil} })),
	foreign("foreign.bind-mr", "BindMW to a region of another CA fails with InvalidPermission", ci.CapMW1,
		tap.QP(func(q ci.QP, _ ci.QPCreate) ci.QP {
			return foreignBind{ciwrap.QP{QP: q}, ci.InvalidMRHandle, wrongPD}
		})),
	foreign("foreign.bind-post", "OpBindMW with an object of another CA fails with InsufficientResources", ci.CapMW2,
		noResources(ci.OpBindMW)),
	foreign("foreign.fast", "OpFastReg of a region of another CA fails with InsufficientResources", ci.CapFastReg,
		noResources(ci.OpFastReg)),
	foreign("foreign.shared", "a shared region of another CA's region is created over other memory", ci.CapSharedMR,
		ofPD(func(p ciwrap.PD) ci.PD { return foreignShare{p} })),
	foreign("foreign.modify", "MR.Modify to a PD of another CA does nothing", ci.CapModifyMR,
		tap.MRs(func(m ciwrap.MR) ci.MR { return foreignModify{m} })),
	foreign("foreign.fmr", "UnmapFMRs skips an FMR of another CA", ci.CapFMR,
		ofPD(func(p ciwrap.PD) ci.PD { return foreignUnmap{p} })),
}

// foreign returns a mutant that breaks CI-ForeignHandle-01.
func foreign(name, does string, needs ci.Caps, wrap func(ci.HCA) ci.HCA) mutant.Mutant {
	return mutant.Of(name, "CI-ForeignHandle-01", does, wrap).Needing(needs)
}

// ofPD wraps PDs.
func ofPD(f func(ciwrap.PD) ci.PD) func(ci.HCA) ci.HCA {
	return tap.PDs(f)
}

var wrongPD = &ci.Error{Verb: "QP.BindMW", Status: ci.InvalidPermission}

// noResources replaces the error of requests with an invalid object by InsufficientResources.
func noResources(op ci.SendOp) func(ci.HCA) ci.HCA {
	return tap.Post(func(q ci.QP, _ ci.QPCreate, wrs []ci.SendWR) (int, error) {
		n, err := q.PostSend(wrs)
		if err == nil || n >= len(wrs) || wrs[n].Op != op {
			return n, err
		}
		switch ci.StatusOf(err) {
		case ci.InvalidMWHandle, ci.InvalidMRHandle, ci.InvalidParameter:
			return n, &ci.Error{Verb: "QP.PostSend", Status: ci.InsufficientResources}
		}
		return n, err
	})
}

type foreignCQ struct{ ciwrap.PD }

func (p foreignCQ) CreateQP(c ci.QPCreate) (ci.QP, error) {
	q, err := p.PD.CreateQP(c)
	if ci.StatusOf(err) == ci.InvalidCQHandle {
		return nil, &ci.Error{Verb: "PD.CreateQP", Status: ci.InvalidCQSize}
	}
	return q, err
}

// foreignBind replaces the result of a bind that fails with status.
type foreignBind struct {
	ciwrap.QP
	status ci.Status
	result error
}

func (q foreignBind) BindMW(id uint64, flags ci.SendFlags, b ci.MWBind) (ci.Key, error) {
	key, err := q.QP.BindMW(id, flags, b)
	if ci.StatusOf(err) == q.status {
		return b.Key, q.result
	}
	return key, err
}

type foreignShare struct{ ciwrap.PD }

func (p foreignShare) RegisterSMR(src ci.MR, iova uint64, access ci.Access) (ci.MR, error) {
	mr, err := p.PD.RegisterSMR(src, iova, access)
	if ci.StatusOf(err) == ci.InvalidMRHandle && !ci.IsNil(src) {
		return p.RegisterMR(ci.MRCreate{Memory: ci.Bytes(make([]byte, src.Region().Length)), Access: access})
	}
	return mr, err
}

type foreignModify struct{ ciwrap.MR }

func (m foreignModify) Modify(set ci.MRField, pd ci.PD, c ci.MRCreate) error {
	err := m.MR.Modify(set, pd, c)
	if ci.StatusOf(err) == ci.InvalidPDHandle {
		return nil
	}
	return err
}

type foreignUnmap struct{ ciwrap.PD }

func (p foreignUnmap) UnmapFMRs(list []ci.FMR) error {
	err := p.PD.UnmapFMRs(list)
	if ci.StatusOf(err) != ci.InvalidFMRHandle {
		return err
	}
	for _, f := range list {
		_ = p.PD.UnmapFMRs([]ci.FMR{f}) // unmaps those of this CA
	}
	return nil
}
