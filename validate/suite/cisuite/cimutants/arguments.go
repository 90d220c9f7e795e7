package cimutants

import (
	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate/mutant"
	"ciddk/validate/mutant/tap"
)

// arguments are drivers with a fault at the largest arguments, at those beyond them, or at queues of depth 0.
var arguments = []mutant.Mutant{
	argument("args.inline", "CI-CreateQP-04", "CreateQP needs one byte of inline data more than requested", 0,
		tap.Layer(ciwrap.Layer{QPCreate: func(c ci.QPCreate) ci.QPCreate {
			if c.MaxInline > 0 {
				c.MaxInline++
			}
			return c
		}})),
	argument("args.flags", "CI-CreateQP-05", "CreateQP ignores an unknown flag", 0,
		tap.Layer(ciwrap.Layer{QPCreate: func(c ci.QPCreate) ci.QPCreate { c.Flags &= 0xf; return c }})),
	argument("args.negative", "CI-CreateQP-05", "CreateQP takes a negative depth for 1", 0,
		tap.Layer(ciwrap.Layer{QPCreate: func(c ci.QPCreate) ci.QPCreate {
			if c.SendDepth < 0 {
				c.SendDepth = 1
			}
			return c
		}})),
	argument("args.vector", "CI-CreateCQ-03", "CreateCQ chooses a vector in place of one that does not exist", 0,
		tap.Layer(ciwrap.Layer{CQCreate: func(c ci.CQCreate) ci.CQCreate {
			if c.Affinity.Vector > 1 {
				c.Affinity.Vector = 0
			}
			return c
		}})),
	argument("args.depth-zero", "CI-DepthZero-01", "PostSend to a queue of depth 0 fails with InvalidQPState", 0,
		tap.Post(func(q ci.QP, c ci.QPCreate, wrs []ci.SendWR) (int, error) {
			n, err := q.PostSend(wrs)
			if c.SendDepth == 0 && err != nil {
				err = &ci.Error{Verb: "QP.PostSend", Status: ci.InvalidQPState}
			}
			return n, err
		})),
	argument("args.unknown", "CI-Unknown-01", "Notify of a condition that does not exist arms the CQ", 0,
		tap.CQs(func(q ciwrap.CQ) ci.CQ { return eagerCQ{q} })),
	argument("args.longest", "CI-Unknown-02", "RegisterMR registers a part of memory that is too long", 0,
		tap.Layer(ciwrap.Layer{MRCreate: func(c ci.MRCreate) ci.MRCreate {
			if c.Memory != nil && c.Memory.Len() > 1<<36 {
				c.Memory = ci.Bytes(make([]byte, 64))
			}
			return c
		}})),
	argument("args.rtr", "IBTA-9.9-14", "a receive posted in RTR is lost", 0,
		tap.Recv(func(q ci.QP, wrs []ci.RecvWR) (int, error) {
			if a, err := q.Query(); err == nil && a.State == ci.QPRTR {
				return len(wrs), nil
			}
			return q.PostRecv(wrs)
		})),
	argument("args.members", "CI-Mcast-11", "AttachMcast beyond a limit fails with InvalidGID", ci.CapMulticast,
		tap.QP(func(q ci.QP, _ ci.QPCreate) ci.QP { return crowdedQP{ciwrap.QP{QP: q}} })),
	argument("args.path", "CI-ModifyQP-13", "Modify to RTR with destination 0 succeeds without an effect", 0,
		tap.QP(func(q ci.QP, _ ci.QPCreate) ci.QP { return trustingQP{ciwrap.QP{QP: q}} })),
	argument("args.still", "CI-ModifyQP-12", "the rights of a QP in Reset can be changed", 0,
		tap.QP(func(q ci.QP, _ ci.QPCreate) ci.QP { return restlessQP{ciwrap.QP{QP: q}} })),
	argument("args.bind-early", "CI-BindMW-11", "BindMW before RTS fails with InvalidPermission", ci.CapMW1,
		tap.QP(func(q ci.QP, _ ci.QPCreate) ci.QP {
			return foreignBind{ciwrap.QP{QP: q}, ci.InvalidQPState, wrongPD}
		})),
	argument("args.bind-rights", "CI-BindMW-12", "BindMW ignores rights that are not remote", ci.CapMW1,
		tap.QP(func(q ci.QP, _ ci.QPCreate) ci.QP { return lenientBind{ciwrap.QP{QP: q}} })),
	argument("args.user-buffer", "CI-User-01", "Modify of a QP leaves the UserBuffer as it was", ci.CapUser,
		tap.QP(func(q ci.QP, _ ci.QPCreate) ci.QP { return mutedQP{ciwrap.QP{QP: q}} })),
	mutant.Of("special.deaf", "CI-SpecialQP-11", "the driver makes no reports of the network",
		tap.Layer(ciwrap.Layer{
			HCA: func(h ci.HCA) ci.HCA { return deafHCA{ciwrap.HCA{HCA: h}} }})).On("udp"),
	mutant.Of("args.current-state", "CI-ModifyQP-06", "Query returns no current state",
		tap.QP(func(q ci.QP, _ ci.QPCreate) ci.QP {
			return stateless{ciwrap.QP{QP: q}}
		})).By("qp.state.rc.query"),
}

// argument returns a mutant of a requirement that only the area of arguments checks.
func argument(
	name, breaks, does string, needs ci.Caps, wrap func(ci.HCA) ci.HCA,
) mutant.Mutant {
	return mutant.Of(name, breaks, does, wrap).Needing(needs)
}

// eagerCQ takes each condition that does not exist for the next completion.
type eagerCQ struct{ ciwrap.CQ }

func (q eagerCQ) Notify(when ci.Notify) error {
	if when != ci.NotifySolicited {
		when = ci.NotifyNext
	}
	return q.CQ.Notify(when)
}

// crowdedQP replaces the status of a limit.
type crowdedQP struct{ ciwrap.QP }

func (q crowdedQP) AttachMcast(c ci.McastAttach) (ci.Mcast, error) {
	m, err := q.QP.AttachMcast(c)
	if s := ci.StatusOf(err); s == ci.MaxMcastQPsReached || s == ci.InsufficientResources {
		return nil, &ci.Error{Verb: "QP.AttachMcast", Status: ci.InvalidGID}
	}
	return m, err
}

// trustingQP accepts every address of a connection.
type trustingQP struct{ ciwrap.QP }

func (q trustingQP) Modify(set ci.QPField, a ci.QPAttr) error {
	if av := &a.Primary.AV; set&ci.QPFieldPrimary != 0 && av.DLID == 0 && av.GRH.DGID == (ci.GID{}) {
		return nil
	}
	return q.QP.Modify(set, a)
}

// restlessQP accepts rights without a transition in any state.
type restlessQP struct{ ciwrap.QP }

func (q restlessQP) Modify(set ci.QPField, a ci.QPAttr) error {
	err := q.QP.Modify(set, a)
	if set == ci.QPFieldAccess && ci.StatusOf(err) == ci.InvalidQPState {
		return nil
	}
	return err
}

// lenientBind drops the rights that windows do not have.
type lenientBind struct{ ciwrap.QP }

func (q lenientBind) BindMW(id uint64, flags ci.SendFlags, b ci.MWBind) (ci.Key, error) {
	b.Access &= ci.RemoteRead | ci.RemoteWrite | ci.RemoteAtomic
	return q.QP.BindMW(id, flags, b)
}

type stateless struct{ ciwrap.QP }

func (q stateless) Query() (ci.QPAttr, error) {
	a, err := q.QP.Query()
	a.CurrentState = 0
	return a, err
}

// deafHCA makes no reports of the network.
type deafHCA struct{ ciwrap.HCA }

func (deafHCA) OnUndelivered(func(ci.Undelivered)) (stop func()) { return func() {} }

// mutedQP does not answer the private data of Modify.
type mutedQP struct{ ciwrap.QP }

func (q mutedQP) Modify(set ci.QPField, a ci.QPAttr) error {
	if a.User != nil {
		ub := *a.User
		a.User = &ub
	}
	return q.QP.Modify(set, a)
}
