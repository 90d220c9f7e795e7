package cmmutants

import (
	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate/mutant"
	"ciddk/validate/mutant/tap"
)

var connects = []mutant.Mutant{
	fault("cm.psn", "CM-Conn-01", "the expected PSN of a QP is one more than the one set",
		tap.Modify(func(_ ci.QPCreate, set ci.QPField, a *ci.QPAttr) {
			if set&ci.QPFieldRQPSN != 0 {
				a.RQPSN = (a.RQPSN + 1) & 0xffffff
			}
		})),
	edit("cm.rep-private", "CM-Conn-02", "the last byte of a REP's private data is zero",
		attrREP, func(b []byte) { b[255] = 0 }),
	fault("cm.depth", "CM-Conn-03", "a QP has one more outstanding RDMA read than its initiator depth",
		tap.Modify(func(_ ci.QPCreate, set ci.QPField, a *ci.QPAttr) {
			if set&ci.QPFieldInitDepth != 0 {
				a.InitDepth++
			}
		})),
	fault("cm.silent", "CM-Conn-04", "the event communication established is not reported",
		tap.Layer(ciwrap.Layer{Event: func(e ci.Event, deliver func(ci.Event)) {
			if e.Type != ci.EventQPComm {
				deliver(e)
			}
		}})),
	fault("cm.stays", "CM-Conn-05", "a QP that was connected rejects the transition to Reset",
		tap.QP(func(q ci.QP, c ci.QPCreate) ci.QP {
			if c.Type == ci.RC || c.Type == ci.UC {
				return unresettable{ciwrap.QP{QP: q}}
			}
			return q
		})),
	edit("cm.same-qpn", "CM-Conn-09", "every REP has QP number 0x777",
		attrREP, func(b []byte) { b[bodyOffset+12], b[bodyOffset+13], b[bodyOffset+14] = 0, 7, 0x77 }),
}

// unresettable is a QP that cannot be modified to Reset.
type unresettable struct{ ciwrap.QP }

func (q unresettable) Modify(set ci.QPField, a ci.QPAttr) error {
	if set&ci.QPFieldState != 0 && a.State == ci.QPReset {
		return &ci.Error{Verb: "QP.Modify", Status: ci.InvalidQPState}
	}
	return q.QP.Modify(set, a)
}
