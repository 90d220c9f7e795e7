package mutant

import (
	"sync/atomic"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate/mutant/tap"
)

// QPState returns mutants with faults in the state machine of queue pairs.
func QPState() []Mutant {
	modify := func(name, breaks, does string, f func(q *modifier, set ci.QPField, a ci.QPAttr) error) Mutant {
		return Of(name, breaks, does, tap.Layer(ciwrap.Layer{QP: func(q ci.QP, c ci.QPCreate) ci.QP {
			return &modifier{QP: ciwrap.QP{QP: q}, typ: c.Type, f: f}
		}}))
	}
	query := func(name, breaks, does string, f func(a *ci.QPAttr)) Mutant {
		return Of(name, breaks, does, tap.QPs(func(q ciwrap.QP) ci.QP { return queryer{q, f} }))
	}
	return []Mutant{
		modify("qp.state.no-sqd", "CI-ModifyQP-01", "RTS to SQD is rejected",
			func(q *modifier, set ci.QPField, a ci.QPAttr) error {
				if set&ci.QPFieldState != 0 && a.State == ci.QPSQD {
					return invalidState
				}
				return q.inner(set, a)
			}),
		modify("qp.state.no-change-in-sqd", "CI-ModifyQP-01", "attributes of a drained QP cannot be changed",
			func(q *modifier, set ci.QPField, a ci.QPAttr) error {
				if set&ci.QPFieldState != 0 && a.State == ci.QPSQD && q.state() == ci.QPSQD {
					return invalidState
				}
				return q.inner(set, a)
			}),
		modify("qp.state.skip-rtr", "CI-ModifyQP-02", "Init to RTS succeeds and does nothing",
			func(q *modifier, set ci.QPField, a ci.QPAttr) error {
				if set&ci.QPFieldState != 0 && a.State == ci.QPRTS && q.state() == ci.QPInit {
					return nil
				}
				return q.inner(set, a)
			}),
		modify("qp.state.error-to-init", "CI-ModifyQP-08", "Error to Init succeeds through Reset",
			func(q *modifier, set ci.QPField, a ci.QPAttr) error {
				if set&ci.QPFieldState != 0 && a.State == ci.QPInit && q.state() == ci.QPError {
					if err := q.inner(ci.QPFieldState, ci.QPAttr{State: ci.QPReset}); err != nil {
						return err
					}
					set, a.Port = ci.QPFieldsInit, 1
					if q.typ == ci.UD {
						set = ci.QPFieldsUDInit
					}
				}
				return q.inner(set, a)
			}),
		modify("qp.state.defaults", "CI-ModifyQP-03", "a missing P_Key index is taken as 0",
			func(q *modifier, set ci.QPField, a ci.QPAttr) error {
				if set&ci.QPFieldState != 0 && a.State == ci.QPInit && set&ci.QPFieldPKeyIndex == 0 &&
					q.state() == ci.QPReset {
					set |= ci.QPFieldPKeyIndex
					a.Primary.PKeyIndex = 0
				}
				return q.inner(set, a)
			}),
		modify("qp.state.ignores-extra", "CI-ModifyQP-04", "a Q_Key in a transition of a connected QP is ignored",
			func(q *modifier, set ci.QPField, a ci.QPAttr) error {
				if q.typ != ci.UD {
					set &^= ci.QPFieldQKey
				}
				return q.inner(set, a)
			}),
		modify("qp.state.masks-psn", "CI-ModifyQP-05", "a PSN of 25 bits is truncated to 24",
			func(q *modifier, set ci.QPField, a ci.QPAttr) error {
				a.SQPSN &= 1<<24 - 1
				a.RQPSN &= 1<<24 - 1
				return q.inner(set, a)
			}),
		modify("qp.state.half-done", "CI-ModifyQP-05", "a rejected transition to RTR leaves the QP in Reset",
			func(q *modifier, set ci.QPField, a ci.QPAttr) error {
				err := q.inner(set, a)
				if err != nil && set&ci.QPFieldMTU != 0 && ci.StatusOf(err) == ci.InvalidParameter {
					_ = q.inner(ci.QPFieldState, ci.QPAttr{State: ci.QPReset})
				}
				return err
			}),
		modify("qp.state.reset-refused", "CI-ModifyQP-07", "RTS to Reset is rejected",
			func(q *modifier, set ci.QPField, a ci.QPAttr) error {
				if set&ci.QPFieldState != 0 && a.State == ci.QPReset && q.state() == ci.QPRTS {
					return invalidState
				}
				return q.inner(set, a)
			}),
		modify("qp.state.maskless", "CI-ModifyQP-09", "a wrong RNR timer is rejected although its field is not set",
			func(q *modifier, set ci.QPField, a ci.QPAttr) error {
				if a.MinRNRTimer > 31 {
					return &ci.Error{Verb: "QP.Modify", Status: ci.InvalidParameter}
				}
				return q.inner(set, a)
			}),
		modify("qp.state.unknown-bits", "CI-ModifyQP-10", "unknown bits of the mask are ignored",
			func(q *modifier, set ci.QPField, a ci.QPAttr) error {
				return q.inner(set&(ci.QPFieldRecvDepth<<1-1), a)
			}),
		modify("qp.state.believes", "CI-CurrentState-01", "the current state that the consumer passes is ignored",
			func(q *modifier, set ci.QPField, a ci.QPAttr) error { return q.inner(set&^ci.QPFieldCurrentState, a) }),
		modify("qp.state.silent-drain", "CI-SQD-02", "the event SQ drained is never raised",
			func(q *modifier, set ci.QPField, a ci.QPAttr) error { return q.inner(set&^ci.QPFieldSQDEvent, a) }),
		modify("qp.state.eager-drain", "CI-SQD-02", "the event SQ drained is raised without a request",
			func(q *modifier, set ci.QPField, a ci.QPAttr) error {
				if set&ci.QPFieldState != 0 && a.State == ci.QPSQD {
					set |= ci.QPFieldSQDEvent
					a.SQDEvent = true
				}
				return q.inner(set, a)
			}),
		Of("qp.state.sqd-sends", "CI-SQD-04", "a post in SQD takes the QP to RTS",
			tap.QPs(func(q ciwrap.QP) ci.QP { return impatient{q} })),
		query("qp.state.shows-old-access", "CI-ModifyQP-06", "Query always returns all rights",
			func(a *ci.QPAttr) { a.Access = ci.RemoteRead | ci.RemoteWrite | ci.RemoteAtomic | ci.LocalWrite }),
		query("qp.state.shows-no-peer", "CI-ModifyQP-06", "Query does not return the peer's QPN",
			func(a *ci.QPAttr) { a.DestNum = 0 }),
		Of("qp.state.modify-after-destroy", "CI-ModifyQP-11", "Modify after Destroy succeeds",
			tap.QPs(func(q ciwrap.QP) ci.QP { return &undead{QP: q} })),
	}
}

var invalidState = &ci.Error{Verb: "QP.Modify", Status: ci.InvalidQPState}

type modifier struct {
	ciwrap.QP
	typ ci.QPType
	f   func(q *modifier, set ci.QPField, a ci.QPAttr) error
}

func (m *modifier) Modify(set ci.QPField, a ci.QPAttr) error { return m.f(m, set, a) }

func (m *modifier) inner(set ci.QPField, a ci.QPAttr) error { return m.QP.Modify(set, a) }

func (m *modifier) state() ci.QPState {
	a, err := m.Query()
	if err != nil {
		return ci.QPReset
	}
	return a.State
}

type queryer struct {
	ciwrap.QP
	f func(a *ci.QPAttr)
}

func (q queryer) Query() (ci.QPAttr, error) {
	a, err := q.QP.Query()
	q.f(&a)
	return a, err
}

type impatient struct{ ciwrap.QP }

func (i impatient) PostSend(wrs []ci.SendWR) (int, error) {
	if a, err := i.Query(); err == nil && a.State == ci.QPSQD {
		_ = i.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPRTS})
	}
	return i.QP.PostSend(wrs)
}

type undead struct {
	ciwrap.QP
	destroyed atomic.Bool
}

func (u *undead) Destroy() error {
	err := u.QP.Destroy()
	if err == nil {
		u.destroyed.Store(true)
	}
	return err
}

func (u *undead) Modify(set ci.QPField, a ci.QPAttr) error {
	if u.destroyed.Load() {
		return nil
	}
	return u.QP.Modify(set, a)
}
