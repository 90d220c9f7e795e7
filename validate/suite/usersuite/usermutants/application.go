package usermutants

import (
	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate/mutant"
	"ciddk/validate/suite/usersuite"
)

// application returns user access layers with a fault.
func application() []mutant.Mutant {
	client := func(name, breaks, does string, l ciwrap.Layer) mutant.Mutant {
		return fault(name, breaks, does, func() *usersuite.Fault { return &usersuite.Fault{Client: l.Wrap} })
	}
	return []mutant.Mutant{
		client("user.creates-twice", "SAS-2.4-04", "the create of a CQ is sent twice, and the first object is "+
			"destroyed",
			ciwrap.Layer{PD: func(p ci.PD, _ ci.PDType) ci.PD { return twicePD{ciwrap.PD{PD: p}} }}),
		client("user.size-rounded", "SAS-2.4-04", "the size of a CQ is rounded up before the driver sees it",
			ciwrap.Layer{CQCreate: func(c ci.CQCreate) ci.CQCreate { c.Size = (c.Size + 15) &^ 15; return c }}),
		client("user.posts-singly", "SAS-2.1-24", "each request of a list is a message of its own",
			ciwrap.Layer{QP: func(q ci.QP, _ ci.QPCreate) ci.QP { return singleQP{ciwrap.QP{QP: q}} }}),
		client("user.no-gain-by-lists", "SAS-2.1-25", "a list of receives takes as long as single posts",
			ciwrap.Layer{QP: func(q ci.QP, _ ci.QPCreate) ci.QP { return singleQP{ciwrap.QP{QP: q}} }}),
	}
}

type twicePD struct{ ciwrap.PD }

func (p twicePD) CreateCQ(c ci.CQCreate) (ci.CQ, error) {
	if first, err := p.PD.CreateCQ(c); err == nil {
		_ = first.Destroy() // the fault is the create
	}
	return p.PD.CreateCQ(c)
}

type singleQP struct{ ciwrap.QP }

func (q singleQP) PostSend(wrs []ci.SendWR) (int, error) {
	for i := range wrs {
		if _, err := q.QP.PostSend(wrs[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(wrs), nil
}

func (q singleQP) PostRecv(wrs []ci.RecvWR) (int, error) {
	for i := range wrs {
		if _, err := q.QP.PostRecv(wrs[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(wrs), nil
}
