package cisuite

import (
	"fmt"
	"maps"
	"slices"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// qpStateCases are the cases of the state machine of queue pairs and of its attributes. (IBTA 10.3.1, 11.2.5.2.)
var qpStateCases = &validate.Area{Feature: validate.FeatureQP, Needs: validate.Needs{Caps: ci.CapCurrentQPState}}

var ciModifyQP01 = qpStateCases.Must("CI-ModifyQP-01", "IBTA 10.3.1", "ci_modify_qp (25)",
	"Each transition of the state diagram succeeds with exactly the attributes that it requires.")

var ciModifyQP02 = qpStateCases.Must("CI-ModifyQP-02", "IBTA 10.3.1", "ci_modify_qp (25)",
	"A transition that the state diagram does not have fails with InvalidQPState and changes nothing.")

var ciModifyQP03 = qpStateCases.Must("CI-ModifyQP-03", "IBTA 11.2.5.2", "ci_modify_qp (25)",
	"A transition without a required attribute fails with InvalidParameter and changes nothing.")

var ciModifyQP04 = qpStateCases.Must("CI-ModifyQP-04", "IBTA 11.2.5.2", "ci_modify_qp (25)",
	"A transition with an attribute that it does not permit fails with InvalidParameter and changes nothing.")

var ciModifyQP05 = qpStateCases.Must("CI-ModifyQP-05", "IBTA 11.2.5.2", "ci_modify_qp (25)",
	"An attribute out of range fails with the status of its kind, and nothing changes.")

var ciModifyQP06 = qpStateCases.Must("CI-ModifyQP-06", "IBTA 11.2.5.3", "ci_modify_qp (25)",
	"Query returns the attributes that Modify has set.")

var ciModifyQP07 = qpStateCases.Must("CI-ModifyQP-07", "IBTA 10.3.1.1", "ci_modify_qp (25)",
	"A QP can be moved to Reset from every state and then be connected again.")

var ciModifyQP08 = qpStateCases.Must("CI-ModifyQP-08", "IBTA 10.3.1.7", "ci_modify_qp (25)",
	"A QP can be moved to Error from every state, and from Error only to Reset.")

var ciModifyQP09 = qpStateCases.Must("CI-ModifyQP-09", "IBTA 11.2.5.2", "ci_modify_qp (25)",
	"Values of attributes that are not in the mask are ignored.")

var ciModifyQP10 = qpStateCases.Must("CI-ModifyQP-10", "IBTA 11.2.5.2", "ci_modify_qp (25)",
	"An unknown bit of the mask fails with InvalidParameter, and nothing changes.")

var ciModifyQP11 = qpStateCases.Must("CI-ModifyQP-11", "IBTA 10.3.1", "ci_modify_qp (25)",
	"Modify of a destroyed QP fails with InvalidQPHandle.")

var ciSQD01 = qpStateCases.Must("CI-SQD-01", "IBTA 10.3.1.5", "ci_modify_qp (25)",
	"A QP that is moved to SQD completes the sends that it has begun and begins no others. Posted requests are "+
		"accepted and wait.")

var ciSQD02 = qpStateCases.Must("CI-SQD-02", "IBTA 10.3.1.5", "ci_modify_qp (25)",
	"When the send queue has drained, the event SQ drained is raised once if it was requested, and otherwise not.")

var ciSQD03 = qpStateCases.Must("CI-SQD-03", "IBTA 10.3.1.5", "ci_modify_qp (25)", "A QP in SQD still receives.")

var ciSQD04 = qpStateCases.Must("CI-SQD-04", "IBTA 10.3.1.5", "ci_modify_qp (25)",
	"When the QP is back in RTS, the waiting requests are sent in order.")

var ciCurrentState01 = qpStateCases.Must("CI-CurrentState-01", "IBTA 11.2.5.2", "ci_modify_qp (25)",
	"If CapCurrentQPState is claimed, a Modify whose current state is not that of the QP fails with "+
		"InvalidQPState.")

// statePattern is a case of the state machine, which exists for each service.
type statePattern struct {
	id, title string
	proves    *req.Requirement
	checks    *req.Requirement // may be nil
	run       func(*validate.T, ci.QPType)
}

var statePatterns = []statePattern{
	{"legal", "every transition with the attributes that it requires", ciModifyQP01, req.SAS2_3_11, qpLegal},
	{"illegal", "every transition that does not exist", ciModifyQP02, nil, qpIllegal},
	{"missing", "each required attribute missing", ciModifyQP03, nil, qpMissing},
	{"extra", "attributes that the transition does not permit", ciModifyQP04, nil, qpExtra},
	{"values", "values out of range", ciModifyQP05, nil, qpValues},
	{"query", "attributes that Query returns", ciModifyQP06, nil, qpShows},
	{"optional", "every transition with each optional attribute", ciModifyQP01, nil, qpOptional},
	{"largest", "largest value of each attribute", ciModifyQP06, nil, qpLargest},
	{"reset", "from every state to Reset, then connected again", ciModifyQP07, nil, qpResets},
	{"error", "from every state to Error, and from there", ciModifyQP08, nil, qpErrors},
	{"mask", "values that are not in the mask", ciModifyQP09, nil, qpMask},
	{"unknown", "unknown bits of the mask", ciModifyQP10, nil, qpUnknown},
	{"stale", "Modify and Query after Destroy", ciModifyQP11, nil, qpModifyStale},
	{"drain-event", "drain with and without an event", ciSQD02, nil, qpDrainEvent},
	{"drain-posts", "post to a drained QP, then resume", ciSQD04, ciSQD01, qpDrainPosts},
	{"drain-receives", "receive on a drained QP", ciSQD03, nil, qpDrainReceives},
}

var _ = validate.Matrix(qpStateCases, eachService(statePatterns),
	func(p perService[statePattern]) (validate.Case, []*req.Requirement) {
		c := validate.Case{
			ID:      "qp.state." + p.name + "." + p.of.id,
			Title:   fmt.Sprintf("%s QP: %s", p.typ, p.of.title),
			Feature: p.feature,
			Needs:   validate.Needs{Caps: p.caps &^ ci.CapAV},
			Run:     func(t *validate.T) { p.of.run(t, p.typ) },
		}
		if p.typ == ci.RC {
			c.Feature = validate.FeatureQP
		}
		if p.of.checks == nil {
			return c, []*req.Requirement{p.of.proves}
		}
		c.Checks = []string{p.of.checks.ID}
		return c, []*req.Requirement{p.of.proves, p.of.checks}
	})

var _ = qpStateCases.Add("qp.state.current", "a wrong and the correct current state", qpCurrent, ciCurrentState01)

// ladder is a QP that a case moves through its states, and a peer.
type ladder struct {
	t   *validate.T
	typ ci.QPType
	*kit.Pair
}

func newLadder(t *validate.T, typ ci.QPType) ladder {
	return ladder{t, typ, kit.NewPairInReset(t, kit.Type(typ))}
}

// climbable are the states to which a consumer can move an idle QP.
var climbable = []ci.QPState{ci.QPReset, ci.QPInit, ci.QPRTR, ci.QPRTS, ci.QPSQD, ci.QPError}

// climb moves the QP to state s. Failures are marked Setup.
func (l ladder) climb(s ci.QPState) {
	q := l.A.QP
	q.To(ci.QPReset)
	if s == ci.QPError {
		q.To(ci.QPError)
		return
	}
	if s >= ci.QPInit {
		q.Init()
	}
	if s >= ci.QPRTR {
		q.RTR(l.B.QP)
	}
	if s >= ci.QPRTS {
		q.RTS()
	}
	if s == ci.QPSQD {
		f, a := ci.QPFieldState, ci.QPAttr{State: ci.QPSQD}
		kit.OK(l.t, q.Modify(f, a), "QP.Modify to SQD")
		q.Becomes(ci.QPSQD) // some attributes can be changed only when the queue has drained
	}
}

// attrs returns valid values for a transition and the fields that it requires.
func (l ladder) attrs(e edge) (ci.QPField, ci.QPAttr) {
	q := l.A.QP
	_, a := q.InitAttr()
	_, rtr := q.RTRAttr(l.B.QP)
	_, rts := q.RTSAttr()
	a.Primary, a.MTU, a.DestNum = rtr.Primary, rtr.MTU, rtr.DestNum
	a.RQPSN, a.RespRes, a.MinRNRTimer = rtr.RQPSN, rtr.RespRes, rtr.MinRNRTimer
	a.SQPSN, a.InitDepth = rts.SQPSN, rts.InitDepth
	a.RetryCount, a.RNRRetry = rts.RetryCount, rts.RNRRetry
	a.State = e.to
	return ci.QPFieldState | qpRules(l.typ)[e].need, a
}

// refused expects a Modify to fail with one of want and to change nothing.
func (l ladder) refused(set ci.QPField, a ci.QPAttr, where string, want ...ci.Status) {
	before, err := l.A.QP.Query()
	kit.OK(l.t, err, "QP.Query")
	kit.Want(l.t, l.A.QP.Modify(set, a), where, want...)
	after, err := l.A.QP.Query()
	kit.OK(l.t, err, "QP.Query")
	kit.True(l.t, sameAttr(before, after), "QP.Query after the rejected "+where, fmt.Sprintf("%+v", plain(before)),
		"%+v", plain(after))
}

// plain returns the attributes without the objects, which must be compared with ci.Same.
func plain(a ci.QPAttr) ci.QPAttr {
	a.PD, a.SRQ = nil, nil
	a.SendCQ, a.RecvCQ = nil, nil
	if a.State == ci.QPSQDraining { // draining ends by itself
		a.State, a.CurrentState = ci.QPSQD, ci.QPSQD
	}
	return a
}

func sameAttr(a, b ci.QPAttr) bool { return plain(a) == plain(b) }

// edges returns the legal transitions in a fixed order.
func edges(typ ci.QPType) []edge {
	return slices.SortedFunc(maps.Keys(qpRules(typ)), func(a, b edge) int {
		if a.from != b.from {
			return int(a.from) - int(b.from)
		}
		return int(a.to) - int(b.to)
	})
}

func (e edge) String() string { return e.from.String() + " to " + e.to.String() }

func qpLegal(t *validate.T, typ ci.QPType) {
	l := newLadder(t, typ)
	for _, e := range kit.Variants(t, "", edges(typ)) {
		if e.from == ci.QPSQError {
			continue // only a failure leads to this state; the fault cases test it
		}
		l.climb(e.from)
		f, a := l.attrs(e)
		kit.OK(t, l.A.QP.Modify(f, a), "QP.Modify from "+e.String())
		t.Charge("SAS-2.3-11", func() {
			if e.to == ci.QPSQD {
				l.A.QP.WantState(ci.QPSQD, ci.QPSQDraining)
			} else {
				l.A.QP.WantState(e.to)
			}
		})
	}
}

// qpOptional requests each transition with each of its optional attributes, and with all of them.
func qpOptional(t *validate.T, typ ci.QPType) {
	l := newLadder(t, typ)
	rules := qpRules(typ)
	for _, e := range kit.Variants(t, "", edges(typ)) {
		if e.from == ci.QPSQError {
			continue
		}
		for _, set := range optionalSets(rules[e].may) {
			l.climb(e.from)
			f, a := l.attrs(e)
			kit.OK(t, l.A.QP.Modify(f|set, a),
				fmt.Sprintf("QP.Modify from %s with the optional fields %#x", e, uint32(set)))
		}
	}
}

// optionalSets returns a set of fields as a whole, and each of its fields.
func optionalSets(may ci.QPField) []ci.QPField {
	sets := []ci.QPField{may}
	for bit := ci.QPField(1); bit <= ci.QPFieldRecvDepth; bit <<= 1 {
		if may&bit != 0 {
			sets = append(sets, bit)
		}
	}
	return sets
}

// qpLargest sets the largest legal value of each attribute of a connection and expects Query to return it.
func qpLargest(t *validate.T, typ ci.QPType) {
	l := newLadder(t, typ)
	q := l.A.QP
	ca := q.CA.Attr
	const max24 = 1<<24 - 1
	largest := ci.QPAttr{
		DestNum: max24 - 1, RQPSN: max24, SQPSN: max24, MinRNRTimer: 31, RetryCount: 7, RNRRetry: 7,
		RespRes: uint8(min(ca.MaxRespResPerQP, 255)), InitDepth: uint8(min(ca.MaxInitDepthPerQP, 255)),
		MTU: q.CA.MTU(),
	}
	last := uint16(len(q.CA.Port.PKeys) - 1)
	for last > 0 && q.CA.Port.PKeys[last]&0x7fff == 0 {
		last--
	}
	for _, e := range []edge{{ci.QPReset, ci.QPInit}, {ci.QPInit, ci.QPRTR}, {ci.QPRTR, ci.QPRTS}} {
		f, a := l.attrs(e)
		a.DestNum, a.RQPSN, a.SQPSN = largest.DestNum, largest.RQPSN, largest.SQPSN
		a.MinRNRTimer, a.RetryCount, a.RNRRetry = largest.MinRNRTimer, largest.RetryCount, largest.RNRRetry
		a.RespRes, a.InitDepth, a.MTU = largest.RespRes, largest.InitDepth, largest.MTU
		a.Primary.PKeyIndex, a.Primary.AckTimeout = last, 31
		a.QKey = 0x7fffffff
		kit.OK(t, q.Modify(f, a), "QP.Modify from "+e.String()+" with the largest values")
	}
	got, err := q.Query()
	kit.OK(t, err, "QP.Query")
	kit.Equal(t, "QPAttr.SQPSN", got.SQPSN, largest.SQPSN)
	kit.Equal(t, "QPAttr.Primary.PKeyIndex", got.Primary.PKeyIndex, last)
	if typ == ci.UD {
		kit.Equal(t, "QPAttr.QKey", got.QKey, 0x7fffffff)
		return
	}
	kit.Equal(t, "QPAttr.DestNum", got.DestNum, largest.DestNum)
	kit.Equal(t, "QPAttr.RQPSN", got.RQPSN, largest.RQPSN)
	kit.Equal(t, "QPAttr.MTU", got.MTU, largest.MTU)
	if typ == ci.UC {
		return
	}
	kit.Equal(t, "QPAttr.MinRNRTimer", got.MinRNRTimer, largest.MinRNRTimer)
	kit.Equal(t, "QPAttr.RetryCount", got.RetryCount, largest.RetryCount)
	kit.Equal(t, "QPAttr.RNRRetry", got.RNRRetry, largest.RNRRetry)
	kit.Equal(t, "QPAttr.RespRes", got.RespRes, largest.RespRes)
	kit.Equal(t, "QPAttr.InitDepth", got.InitDepth, largest.InitDepth)
	kit.Equal(t, "QPAttr.Primary.AckTimeout", got.Primary.AckTimeout, 31)
}

func qpIllegal(t *validate.T, typ ci.QPType) {
	l := newLadder(t, typ)
	rules := qpRules(typ)
	for _, from := range kit.Variants(t, "from", climbable) {
		l.climb(from)
		for _, to := range kit.Variants(t, "state",
			[]ci.QPState{ci.QPInit, ci.QPRTR, ci.QPRTS, ci.QPSQD, ci.QPSQError}) {
			e := edge{from, to}
			if _, legal := rules[e]; legal {
				continue
			}
			_, a := l.attrs(e)
			// Set the attributes that the new state requires, so that only the transition is invalid.
			set := ci.QPFieldState
			for k, r := range rules {
				if k.to == to && k.from != to {
					set |= r.need
				}
			}
			l.refused(set, a, "QP.Modify from "+e.String(), ci.InvalidQPState)
		}
	}
}

func qpMissing(t *validate.T, typ ci.QPType) {
	l := newLadder(t, typ)
	rules := qpRules(typ)
	for _, e := range kit.Variants(t, "", edges(typ)) {
		if e.from == ci.QPSQError {
			continue
		}
		l.climb(e.from)
		f, a := l.attrs(e)
		for bit := ci.QPField(1); bit <= ci.QPFieldRecvDepth; bit <<= 1 {
			if rules[e].need&bit != 0 {
				l.refused(f&^bit, a, fmt.Sprintf("QP.Modify from %s without field %#x", e, uint32(bit)),
					ci.InvalidParameter, ci.InvalidSetting)
			}
		}
	}
}

func qpExtra(t *validate.T, typ ci.QPType) {
	l := newLadder(t, typ)
	for _, e := range kit.Variants(t, "", edges(typ)) {
		if e.from == ci.QPSQError {
			continue
		}
		l.climb(e.from)
		f, a := l.attrs(e)
		extra := neverAllowed(e, qpRules(typ)[e])
		for bit := ci.QPField(1); bit <= ci.QPFieldRecvDepth; bit <<= 1 {
			if extra&bit != 0 {
				l.refused(f|bit, a, fmt.Sprintf("QP.Modify from %s with field %#x", e, uint32(bit)),
					ci.InvalidParameter, ci.InvalidSetting)
			}
		}
	}
}

func qpValues(t *validate.T, typ ci.QPType) {
	l := newLadder(t, typ)
	attr := l.A.QP.CA.Attr
	type bad struct {
		e      edge
		field  ci.QPField
		what   string
		change func(*ci.QPAttr)
		want   []ci.Status
	}
	param := []ci.Status{ci.InvalidParameter, ci.InvalidSetting}
	init, rtr, rts := edge{ci.QPReset, ci.QPInit}, edge{ci.QPInit, ci.QPRTR}, edge{ci.QPRTR, ci.QPRTS}
	table := []bad{
		{init, ci.QPFieldPort, "port 0", func(a *ci.QPAttr) { a.Port = 0 },
			[]ci.Status{ci.InvalidPort, ci.InvalidParameter}},
		{init, ci.QPFieldPort, "port n+1", func(a *ci.QPAttr) { a.Port = uint8(len(attr.Ports) + 1) },
			[]ci.Status{ci.InvalidPort, ci.InvalidParameter}},
		{init, ci.QPFieldPKeyIndex, "a P_Key index beyond the table",
			func(a *ci.QPAttr) { a.Primary.PKeyIndex = uint16(len(attr.Ports[0].PKeys)) }, []ci.Status{ci.InvalidPKey}},
		{init, ci.QPFieldAccess, "an unknown access right", func(a *ci.QPAttr) { a.Access |= 1 << 20 }, param},
		{rtr, ci.QPFieldMTU, "a path MTU code of 0", func(a *ci.QPAttr) { a.MTU = 0 }, param},
		{rtr, ci.QPFieldMTU, "a path MTU code of 6", func(a *ci.QPAttr) { a.MTU = ci.MTU4096 + 1 }, param},
		{rtr, ci.QPFieldDestNum, "a destination QP of 25 bits", func(a *ci.QPAttr) { a.DestNum = 1 << 24 }, param},
		{rtr, ci.QPFieldRQPSN, "a receive PSN of 25 bits", func(a *ci.QPAttr) { a.RQPSN = 1 << 24 }, param},
		{rtr, ci.QPFieldMinRNRTimer, "an RNR timer code of 32", func(a *ci.QPAttr) { a.MinRNRTimer = 32 }, param},
		{rtr, ci.QPFieldPrimary, "a path of port n+1",
			func(a *ci.QPAttr) { a.Primary.AV.Port = uint8(len(attr.Ports) + 1) },
			[]ci.Status{ci.InvalidPort, ci.InvalidParameter}},
		{rtr, ci.QPFieldPrimary, "a GID index beyond the table",
			func(a *ci.QPAttr) { a.Primary.AV.Global, a.Primary.AV.GRH.SGIDIndex = true, 255 },
			[]ci.Status{ci.InvalidParameter, ci.InvalidGID}},
		{rts, ci.QPFieldSQPSN, "a send PSN of 25 bits", func(a *ci.QPAttr) { a.SQPSN = 1 << 24 }, param},
		{rts, ci.QPFieldAckTimeout, "an ACK timeout of 32", func(a *ci.QPAttr) { a.Primary.AckTimeout = 32 }, param},
		{rts, ci.QPFieldRetryCount, "a retry count of 8", func(a *ci.QPAttr) { a.RetryCount = 8 }, param},
		{rts, ci.QPFieldRNRRetry, "an RNR retry count of 8", func(a *ci.QPAttr) { a.RNRRetry = 8 }, param},
	}
	if m := attr.Ports[0].MTU; m < ci.MTU4096 {
		table = append(table,
			bad{rtr, ci.QPFieldMTU, "a path MTU above the port's", func(a *ci.QPAttr) { a.MTU = m + 1 }, param})
	}
	if m := attr.MaxRespResPerQP; m < 255 {
		table = append(table,
			bad{rtr, ci.QPFieldRespRes, "responder resources above MaxRespResPerQP",
				func(a *ci.QPAttr) { a.RespRes = uint8(m + 1) }, param})
	}
	if m := attr.MaxInitDepthPerQP; m < 255 {
		table = append(table,
			bad{rts, ci.QPFieldInitDepth, "initiator depth above MaxInitDepthPerQP",
				func(a *ci.QPAttr) { a.InitDepth = uint8(m + 1) }, param})
	}
	rules := qpRules(typ)
	at := ci.QPState(255)
	for _, b := range table {
		if (rules[b.e].need|rules[b.e].may)&b.field == 0 {
			continue
		}
		if at != b.e.from {
			l.climb(b.e.from)
			at = b.e.from
		}
		f, a := l.attrs(b.e)
		b.change(&a)
		l.refused(f|b.field, a, fmt.Sprintf("QP.Modify from %s with %s", b.e, b.what), b.want...)
	}
}

func qpShows(t *validate.T, typ ci.QPType) {
	l := newLadder(t, typ)
	l.climb(ci.QPRTS)
	q := l.A.QP
	_, want := l.attrs(edge{ci.QPRTR, ci.QPRTS})
	got, err := q.Query()
	kit.OK(t, err, "QP.Query in RTS")
	kit.Equal(t, "QPAttr.Type", got.Type, typ)
	kit.Equal(t, "QPAttr.Num", got.Num, q.Num())
	kit.Equal(t, "QPAttr.State", got.State, ci.QPRTS)
	kit.Equal(t, "QPAttr.CurrentState", got.CurrentState, ci.QPRTS)
	kit.Equal(t, "QPAttr.Port", got.Port, want.Port)
	kit.Equal(t, "QPAttr.Primary.PKeyIndex", got.Primary.PKeyIndex, want.Primary.PKeyIndex)
	kit.Equal(t, "QPAttr.SQPSN before the first send", got.SQPSN, want.SQPSN)
	kit.SameObject(t, "QPAttr.SendCQ", got.SendCQ, l.A.CQ.CQ)
	kit.SameObject(t, "QPAttr.RecvCQ", got.RecvCQ, l.A.RecvCQ.CQ)
	kit.SameObject(t, "QPAttr.PD", got.PD, q.PD)
	if typ == ci.UD {
		kit.Equal(t, "QPAttr.QKey", got.QKey, want.QKey)
		return
	}
	kit.Equal(t, "QPAttr.Access", got.Access, want.Access)
	kit.Equal(t, "QPAttr.MTU", got.MTU, want.MTU)
	kit.Equal(t, "QPAttr.DestNum", got.DestNum, want.DestNum)
	kit.Equal(t, "QPAttr.RQPSN before the first receive", got.RQPSN, want.RQPSN)
	kit.Equal(t, "QPAttr.Primary.AV", got.Primary.AV, want.Primary.AV)
	if typ == ci.UC {
		return
	}
	kit.Equal(t, "QPAttr.RespRes", got.RespRes, want.RespRes)
	kit.Equal(t, "QPAttr.InitDepth", got.InitDepth, want.InitDepth)
	kit.Equal(t, "QPAttr.MinRNRTimer", got.MinRNRTimer, want.MinRNRTimer)
	kit.Equal(t, "QPAttr.RetryCount", got.RetryCount, want.RetryCount)
	kit.Equal(t, "QPAttr.RNRRetry", got.RNRRetry, want.RNRRetry)
	kit.Equal(t, "QPAttr.Primary.AckTimeout", got.Primary.AckTimeout, want.Primary.AckTimeout)

	a := ci.QPAttr{Access: ci.RemoteRead, MinRNRTimer: 31}
	kit.OK(t, q.Modify(ci.QPFieldAccess|ci.QPFieldMinRNRTimer, a), "QP.Modify of Access and MinRNRTimer in RTS")
	got, err = q.Query()
	kit.OK(t, err, "QP.Query in RTS")
	kit.Equal(t, "QPAttr.Access after QP.Modify in RTS", got.Access, ci.RemoteRead)
	kit.Equal(t, "QPAttr.MinRNRTimer after QP.Modify in RTS", got.MinRNRTimer, 31)
}

func qpResets(t *validate.T, typ ci.QPType) {
	p := kit.NewPair(t, kit.Type(typ))
	l := ladder{t, typ, p}
	reset := func(from ci.QPState) {
		kit.OK(t, p.A.QP.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPReset}),
			"QP.Modify from "+from.String()+" to Reset")
	}
	for _, from := range kit.Variants(t, "from", climbable) {
		reset(ci.QPRTS)
		l.climb(from)
		reset(from)
		p.A.QP.WantState(ci.QPReset)
		if typ == ci.UD {
			p.A.QP.Init().RTR(nil).RTS()
		} else {
			p.B.QP.To(ci.QPReset)
			kit.Connect(p.A.QP, p.B.QP)
		}
		p.A.Exchange(p.B, 100)
		p.B.Exchange(p.A, 100)
	}
}

func qpErrors(t *validate.T, typ ci.QPType) {
	l := newLadder(t, typ)
	for _, from := range kit.Variants(t, "from", climbable) {
		l.climb(from)
		kit.OK(t, l.A.QP.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPError}),
			"QP.Modify from "+from.String()+" to Error")
		l.A.QP.WantState(ci.QPError)
	}
	for _, to := range kit.Variants(t, "state", []ci.QPState{ci.QPInit, ci.QPRTR, ci.QPRTS, ci.QPSQD}) {
		_, a := l.attrs(edge{ci.QPError, to})
		l.refused(ci.QPFieldState, a, "QP.Modify from Error to "+to.String(), ci.InvalidQPState)
	}
	l.A.QP.To(ci.QPReset)
	l.A.QP.WantState(ci.QPReset)
}

func qpMask(t *validate.T, typ ci.QPType) {
	l := newLadder(t, typ)
	for _, e := range kit.Variants(t, "",
		[]edge{{ci.QPReset, ci.QPInit}, {ci.QPInit, ci.QPRTR}, {ci.QPRTR, ci.QPRTS}}) {
		l.climb(e.from)
		f, a := l.attrs(e)
		invalid := ci.QPAttr{State: e.to, Port: 99, Access: 1 << 20, MTU: 77, DestNum: 1 << 30, SQPSN: 1 << 30,
			RQPSN: 1 << 30, MinRNRTimer: 200,
			RetryCount: 200, RNRRetry: 200, APM: 99, QKey: 5, Primary: ci.Path{PKeyIndex: 9999, AckTimeout: 200}}
		l.keep(f, &invalid, &a)
		kit.OK(t, l.A.QP.Modify(f, invalid),
			"QP.Modify from "+e.String()+" with invalid values in fields that are not in the mask")
	}
}

// keep copies the fields in set from good to a.
func (ladder) keep(set ci.QPField, a, good *ci.QPAttr) {
	for f, copy := range map[ci.QPField]func(){
		ci.QPFieldAccess:      func() { a.Access = good.Access },
		ci.QPFieldPort:        func() { a.Port = good.Port },
		ci.QPFieldPKeyIndex:   func() { a.Primary.PKeyIndex = good.Primary.PKeyIndex },
		ci.QPFieldQKey:        func() { a.QKey = good.QKey },
		ci.QPFieldPrimary:     func() { a.Primary.AV = good.Primary.AV },
		ci.QPFieldMTU:         func() { a.MTU = good.MTU },
		ci.QPFieldDestNum:     func() { a.DestNum = good.DestNum },
		ci.QPFieldRQPSN:       func() { a.RQPSN = good.RQPSN },
		ci.QPFieldSQPSN:       func() { a.SQPSN = good.SQPSN },
		ci.QPFieldRespRes:     func() { a.RespRes = good.RespRes },
		ci.QPFieldInitDepth:   func() { a.InitDepth = good.InitDepth },
		ci.QPFieldMinRNRTimer: func() { a.MinRNRTimer = good.MinRNRTimer },
		ci.QPFieldAckTimeout:  func() { a.Primary.AckTimeout = good.Primary.AckTimeout },
		ci.QPFieldRetryCount:  func() { a.RetryCount = good.RetryCount },
		ci.QPFieldRNRRetry:    func() { a.RNRRetry = good.RNRRetry },
	} {
		if set&f != 0 {
			copy()
		}
	}
}

func qpUnknown(t *validate.T, typ ci.QPType) {
	l := newLadder(t, typ)
	f, a := l.attrs(edge{ci.QPReset, ci.QPInit})
	l.refused(f|1<<31, a, "QP.Modify with bit 31 of the mask", ci.InvalidParameter)
	l.refused(f|ci.QPFieldRecvDepth<<1, a, "QP.Modify with the bit after the last bit of the mask", ci.InvalidParameter)
}

func qpModifyStale(t *validate.T, typ ci.QPType) {
	l := newLadder(t, typ)
	f, a := l.attrs(edge{ci.QPReset, ci.QPInit})
	kit.Destroy(t, l.A.QP.QP, "QP")
	kit.Want(t, l.A.QP.Modify(f, a), "QP.Modify after Destroy", ci.InvalidQPHandle)
	_, err := l.A.QP.Query()
	kit.Want(t, err, "QP.Query after Destroy", ci.InvalidQPHandle)
}

func qpDrainEvent(t *validate.T, typ ci.QPType) {
	p := kit.NewPair(t, kit.Type(typ))
	q := p.A.QP
	drain := func(event bool) {
		kit.OK(t, q.Modify(ci.QPFieldState|ci.QPFieldSQDEvent, ci.QPAttr{State: ci.QPSQD, SQDEvent: event}),
			"QP.Modify from RTS to SQD")
		kit.OK(t, q.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPRTS}), "QP.Modify from SQD to RTS")
	}
	drain(false)
	kit.OK(t, q.Modify(ci.QPFieldState|ci.QPFieldSQDEvent, ci.QPAttr{State: ci.QPSQD, SQDEvent: true}),
		"QP.Modify from RTS to SQD")
	e := q.Events.Wait(ci.EventSQDrained)
	kit.True(t, e.Context == any(q.Events), "Event.Context", "the context of the QP's creation", "%v", e.Context)
	q.WantState(ci.QPSQD)
	kit.OK(t, q.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPRTS}), "QP.Modify from SQD to RTS")
	p.A.Exchange(p.B, 64)
	kit.Equal(t, "events SQ drained after one request for it", q.Events.Count(ci.EventSQDrained), 1)
}

func qpDrainPosts(t *validate.T, typ ci.QPType) {
	p := kit.NewPair(t, kit.Type(typ))
	pad := 0
	if typ == ci.UD {
		pad = 40
	}
	q := p.A.QP
	kit.OK(t, q.Modify(ci.QPFieldState|ci.QPFieldSQDEvent, ci.QPAttr{State: ci.QPSQD, SQDEvent: true}),
		"QP.Modify from RTS to SQD")
	q.Events.Wait(ci.EventSQDrained)
	p.B.Recv(p.B.RecvWRs(4, pad+1)...)
	t.Charge("CI-SQD-01", func() { q.Send(p.A.SendWRs(4)...) })
	p.B.RecvCQ.Empty()
	p.A.CQ.Empty()
	kit.OK(t, q.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPRTS}), "QP.Modify from SQD to RTS")
	p.A.CQ.WaitOK(1, 2, 3, 4)
	p.B.RecvCQ.WaitOK(1, 2, 3, 4)
}

func qpDrainReceives(t *validate.T, typ ci.QPType) {
	p := kit.NewPair(t, kit.Type(typ))
	kit.OK(t, p.A.QP.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPSQD}), "QP.Modify from RTS to SQD")
	p.B.Exchange(p.A, 200)
}

func qpCurrent(t *validate.T) {
	l := newLadder(t, ci.RC)
	l.climb(ci.QPRTS)
	a := ci.QPAttr{CurrentState: ci.QPRTR, MinRNRTimer: 5}
	l.refused(ci.QPFieldCurrentState|ci.QPFieldMinRNRTimer, a, "QP.Modify in RTS with current state RTR",
		ci.InvalidQPState)
	a.CurrentState = ci.QPRTS
	kit.OK(t, l.A.QP.Modify(ci.QPFieldCurrentState|ci.QPFieldMinRNRTimer, a), "QP.Modify in RTS with current state RTS")
}
