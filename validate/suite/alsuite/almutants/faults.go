package almutants

import (
	"slices"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate/mutant"
	"ciddk/validate/mutant/tap"
	"ciddk/validate/suite/alsuite"
)

// belowFaults are faults that the cases see together with those that they cause themselves.
func belowFaults() []mutant.Mutant {
	return []mutant.Mutant{
		fault("al.region-error", alsuite.CIRefuse01, "a region rejects its first Destroy with an error status",
			tap.Layer(ciwrap.Layer{MR: func(m ci.MR, _ ciwrap.MROrigin) ci.MR {
				return &onceMR{MR: ciwrap.MR{MR: m}}
			}})),
		fault("al.ca-stays", alsuite.CIRefuse02, "a CA in which a PD was allocated stays open after Destroy",
			tap.Layer(ciwrap.Layer{CA: func(c ci.CA) ci.CA { return &staysOpen{CA: ciwrap.CA{CA: c}} }})),
		fault("al.qp-destroyed", alsuite.CIRefuse03, "the first Destroy of a QP is rejected as one of a destroyed QP",
			tap.QP(func(q ci.QP, _ ci.QPCreate) ci.QP { return &onceQP{QP: ciwrap.QP{QP: q}} })),
		fault("al.modify-nothing", alsuite.CIChange01, "CA.Modify without a field fails",
			tap.Layer(ciwrap.Layer{CA: func(c ci.CA) ci.CA { return modifiesSome{ciwrap.CA{CA: c}} }})),
		fault("al.port-guids", alsuite.CIChange02, "each port has the GUID 0102030405060708",
			tap.Layer(ciwrap.Layer{CA: func(c ci.CA) ci.CA { return sameGUIDs{ciwrap.CA{CA: c}} }})),
		fault("al.rnr-timer", alsuite.CITimeWait01, "the RNR timer cannot be changed in RTS", tap.QP(
			func(q ci.QP, _ ci.QPCreate) ci.QP { return fixedTimer{ciwrap.QP{QP: q}} })),
		fault("al.no-qkey", alsuite.CIInitDatagram01, "Query returns the Q_Key 0", tap.QP(
			func(q ci.QP, _ ci.QPCreate) ci.QP { return noQKey{ciwrap.QP{QP: q}} })),
		fault("al.ca-stays-again", alsuite.CIChange03, "a CA is not closed by the first Destroy",
			tap.Layer(ciwrap.Layer{CA: func(c ci.CA) ci.CA { return unclosed{ciwrap.CA{CA: c}} }})),
		fault("al.loses-a-receive", alsuite.CIPump04, "Poll drops the tenth completion of a CQ", loses(10)),
		fault("al.loses-another-receive", alsuite.CIPump05, "Poll drops the tenth completion of a CQ", loses(10)),
		fault("al.loses-a-third-receive", alsuite.CIPump06, "Poll drops the fifth completion of a CQ", loses(5)),
		fault("al.opens-six-times", alsuite.CIBegin01, "an adapter can be opened six times", opens(6)),
		fault("al.second-query", alsuite.CIBegin02, "a CA that was queried twice cannot be closed", queries(2)),
		fault("al.opens-twice", alsuite.CIBegin03, "an adapter can be opened twice", opens(2)),
		fault("al.fourth-query", alsuite.CINotice01, "a CA that was queried four times cannot be closed", queries(4)),
		fault("al.third-query", alsuite.CINotice02, "a CA that was queried three times cannot be closed", queries(3)),
		fault("al.ca-stays-removed", alsuite.CINotice03, "a CA is not closed by Destroy",
			tap.Layer(ciwrap.Layer{CA: func(c ci.CA) ci.CA { return unclosed{ciwrap.CA{CA: c}} }})),
		fault("al.ca-stays-closed", alsuite.CINotice04, "a CA in which a PD was allocated stays open after Destroy",
			tap.Layer(ciwrap.Layer{CA: func(c ci.CA) ci.CA { return &staysOpen{CA: ciwrap.CA{CA: c}} }})),
	}
}

// opens is an adapter that can be opened so many times, of which the certifier needs one for the claims.
func opens(most int32) func(ci.HCA) ci.HCA {
	return func(h ci.HCA) ci.HCA {
		n := &atomic.Int32{}
		return ciwrap.Wrap(h,
			ciwrap.Layer{HCA: func(h ci.HCA) ci.HCA { return fewOpens{ciwrap.HCA{HCA: h}, n, most} }})
	}
}

// queries is an adapter whose CA cannot be closed after so many queries.
func queries(most int32) func(ci.HCA) ci.HCA {
	return tap.Layer(ciwrap.Layer{CA: func(c ci.CA) ci.CA { return &queriedCA{CA: ciwrap.CA{CA: c}, most: most} }})
}

type queriedCA struct {
	ciwrap.CA
	n    atomic.Int32
	most int32
}

func (c *queriedCA) Query() (*ci.CAAttr, error) {
	c.n.Add(1)
	return c.CA.Query()
}

func (c *queriedCA) Destroy() error {
	if c.n.Load() >= c.most {
		return &ci.Error{Verb: "CA.Destroy", Status: ci.ErrorStatus}
	}
	return c.CA.Destroy()
}

// onceMR is a region that rejects its first Destroy.
type onceMR struct {
	ciwrap.MR
	tried atomic.Bool
}

func (m *onceMR) Destroy() error {
	if !m.tried.Swap(true) {
		return &ci.Error{Verb: "MR.Destroy", Status: ci.ErrorStatus}
	}
	return m.MR.Destroy()
}

// onceQP is a QP that rejects its first Destroy.
type onceQP struct {
	ciwrap.QP
	tried atomic.Bool
}

func (q *onceQP) Destroy() error {
	if !q.tried.Swap(true) {
		return &ci.Error{Verb: "QP.Destroy", Status: ci.InvalidQPHandle}
	}
	return q.QP.Destroy()
}

// modifiesSome is a CA that rejects calls of Modify without a field.
type modifiesSome struct{ ciwrap.CA }

func (c modifiesSome) Modify(port uint8, set ci.PortField, a ci.PortModify) error {
	if set == 0 {
		return &ci.Error{Verb: "CA.Modify", Status: ci.InvalidParameter}
	}
	return c.CA.Modify(port, set, a)
}

// sameGUIDs is a CA whose ports have the same GUID.
type sameGUIDs struct{ ciwrap.CA }

func (c sameGUIDs) Query() (*ci.CAAttr, error) {
	a, err := c.CA.Query()
	if err != nil {
		return nil, err
	}
	out := *a
	out.Ports = slices.Clone(a.Ports)
	for i := range out.Ports {
		out.Ports[i].GUID = 0x0102030405060708
	}
	return &out, nil
}

// unclosed is a CA whose Destroy fails.
type unclosed struct{ ciwrap.CA }

func (unclosed) Destroy() error { return &ci.Error{Verb: "CA.Destroy", Status: ci.ErrorStatus} }

// fixedTimer is a QP whose RNR timer cannot be changed alone.
type fixedTimer struct{ ciwrap.QP }

func (q fixedTimer) Modify(set ci.QPField, a ci.QPAttr) error {
	if set == ci.QPFieldMinRNRTimer {
		return &ci.Error{Verb: "QP.Modify", Status: ci.InvalidParameter}
	}
	return q.QP.Modify(set, a)
}

// noQKey is a QP whose Query returns no Q_Key.
type noQKey struct{ ciwrap.QP }

func (q noQKey) Query() (ci.QPAttr, error) {
	a, err := q.QP.Query()
	a.QKey = 0
	return a, err
}

// loses returns a layer that drops the nth completion of each CQ.
func loses(nth int32) func(ci.HCA) ci.HCA {
	return tap.Layer(ciwrap.Layer{CQ: func(c ci.CQ, _ ci.CQCreate) ci.CQ {
		return &losingCQ{CQ: ciwrap.CQ{CQ: c}, nth: nth}
	}})
}

// losingCQ drops its nth completion.
type losingCQ struct {
	ciwrap.CQ
	nth int32
	n   atomic.Int32
}

func (q *losingCQ) Poll(wc []ci.WC) (int, error) {
	n, err := q.CQ.Poll(wc)
	if before := q.n.Add(int32(n)) - int32(n); before < q.nth && before+int32(n) >= q.nth {
		at := int(q.nth - 1 - before)
		n = at + copy(wc[at:n], wc[at+1:n])
	}
	return n, err
}
