package model

import (
	"cmp"
	"fmt"
	"time"

	"ciddk/ci"
)

// QP is a queue pair.
type QP struct {
	Object
	ci.QPCaps // granted
	Num       ci.QPN
	Type      ci.QPType
	Flags     ci.QPFlags
	Context   any
	SendCQ    *CQ
	RecvCQ    *CQ
	SRQ       *SRQ
	State     ci.QPState
	Attr      ci.QPAttr // attributes that Modify has set
	Events    Events
	// Loose is true if the sources do not determine what the QP does next. Only what holds for every QP is checked.
	Loose bool

	sq, rq             []*request // posted, and not executed
	posted, retired    [2]int     // requests ever posted, and those whose entry is free again: send, receive
	life               int        // counts resets
	sendPSN, expectPSN uint32
	hasFailedEarly     bool // it went to Error from RTR by itself, which a driver may not know when a send is posted
	isOpen             bool // EventQPComm is raised at the first message in RTR only
	wantsDrained       bool // EventSQDrained was requested
	stall              stall
	delay              time.Duration // how long the failure takes that execute returned
	begun              []*fetch      // since the last rest
	why                Rule          // for which it is in an error state
	done               int           // requests that have succeeded since the last rest
	head               []datum       // the GRH of the datagram that is received
	torn               int           // receives that a message which had no end may have taken
}

// fetch is a READ or an atomic that requests after it may overtake: the peer's bytes, and those that it returns to.
type fetch struct{ source, dest []piece }

// stall is why the oldest send waits.
type stall uint8

const (
	notStalled stall = iota
	stalledRNR       // for a receive of the peer
	stalledCut       // for the link
	stalledFor       // for ever: the peer does not answer, and there is no timeout
)

// request is a work request in a queue.
type request struct {
	ci.SendWR           // of a send
	sgl       []ci.SGE  // its segments
	inline    []datum   // its inline data
	av        ci.AVAttr // of a datagram
	avBad     bool
	to        ci.Dest
	seq, life int
	begun     bool    // its first packet may have been sent
	was       []datum // its bytes when it began
	torn      bool    // a part of it may have been executed
	bind      *bind
	fast      *FastReg
}

// CreateQP observes PD.CreateQP. granted is what Query returned.
func (pd *PD) CreateQP(c ci.QPCreate, send, recv *CQ, srq *SRQ, num ci.QPN, granted ci.QPCaps, err error) (
	*QP, *Violation) {
	const verb = "PD.CreateQP"
	if !pd.Dead {
		if rule, want := pd.CA.refuseQP(c, send, recv, srq); want != nil {
			return nil, wantStatus(verb, err, rule, want...)
		}
	}
	if v := pd.created(KindQP, verb, err); v != nil || err != nil {
		return nil, v
	}
	switch {
	case num < 2 || num > 0xffffff:
		return nil, violation("CI-CreateQP-02", verb, "a number of 24 bits, not 0 or 1", "%#x", uint32(num))
	case pd.CA.qps[num] != nil:
		return nil, violation("CI-CreateQP-02", verb, "a number that no QP has", "%#x", uint32(num))
	case pd.CA.quarantine[num]:
		return nil, violation("CI-Teardown-08", verb, "a number that is not in quarantine", "%#x", uint32(num))
	case granted.SendDepth < c.SendDepth || granted.RecvDepth < c.RecvDepth || granted.SendSGE < c.SendSGE ||
		granted.RecvSGE < c.RecvSGE || granted.MaxInline < c.MaxInline:
		return nil, violation("SAS-2.3-10", verb, fmt.Sprintf("at least %+v", c.QPCaps), "%+v", granted)
	}
	q := &QP{QPCaps: granted, Num: num, Type: c.Type, Flags: c.Flags, Context: c.Context, SendCQ: send, RecvCQ: recv,
		SRQ: srq}
	uses := []*Object{&send.Object, &recv.Object}
	if srq != nil {
		uses = append(uses, &srq.Object)
	}
	q.init(KindQP, pd.CA, pd, uses...)
	pd.CA.qps[num] = q
	pd.CA.w.qps = append(pd.CA.w.qps, q)
	return q, nil
}

// refuseQP returns the statuses with which a create is rejected, or nil.
func (c *CA) refuseQP(x ci.QPCreate, send, recv *CQ, srq *SRQ) (Rule, []ci.Status) {
	a := c.Attr
	type statuses = []ci.Status
	over := func(n, limit int) bool { return n < 0 || n > limit }
	switch {
	case send.Dead || recv.Dead:
		return "CI-DestroyCQ-02", statuses{ci.InvalidCQHandle}
	case srq != nil && srq.Dead:
		return "CI-DestroySRQ-02", statuses{ci.InvalidSRQHandle}
	case x.Type == ci.UC && !a.Caps.Has(ci.CapUC), x.Type == ci.UD && !a.Caps.Has(ci.CapUD):
		return "CI-Claims-01", statuses{ci.Unsupported}
	case over(x.SendDepth, a.MaxWRs) || over(x.RecvDepth, a.MaxWRs):
		return "CI-CreateQP-03", statuses{ci.InvalidMaxWRs, ci.InvalidSetting}
	case over(x.SendSGE, a.MaxSGEs) || over(x.RecvSGE, a.MaxSGEs):
		return "CI-CreateQP-03", statuses{ci.InvalidMaxSGE, ci.InvalidSetting}
	case over(x.MaxInline, a.MaxInline):
		return "CI-CreateQP-03", statuses{ci.InvalidSetting, ci.InvalidParameter}
	case srq != nil && x.RecvDepth != 0:
		return "CI-CreateSRQ-03", statuses{ci.InvalidParameter}
	}
	return "", nil
}

// Destroy observes QP.Destroy. quarantined is true if a quarantine of its number was requested that is not over.
func (q *QP) Destroy(quarantined bool, err error) *Violation {
	uses := []*Object{&q.SendCQ.Object, &q.RecvCQ.Object}
	if q.SRQ != nil {
		uses = append(uses, &q.SRQ.Object)
	}
	ended, v := q.destroy(err, uses...)
	if !ended {
		return v
	}
	delete(q.CA.qps, q.Num)
	if quarantined {
		q.CA.quarantine[q.Num] = true
	}
	q.drop()
	q.Events = Events{}
	q.CA.w.settle()
	return nil
}

// step is a transition of the state machine.
type step struct{ from, to ci.QPState }

// fields are the attributes that a transition requires and permits, by service: RC, UC, UD.
type fields [3]struct{ required, optional ci.QPField }

const (
	fAccess = ci.QPFieldAccess
	fPKey   = ci.QPFieldPKeyIndex
	fPort   = ci.QPFieldPort
	fQKey   = ci.QPFieldQKey
	fCur    = ci.QPFieldCurrentState
	fAlt    = ci.QPFieldAlternate
	fAPM    = ci.QPFieldAPM
	fRNR    = ci.QPFieldMinRNRTimer
	fPath   = ci.QPFieldPrimary | ci.QPFieldAckTimeout | ci.QPFieldRetryCount | ci.QPFieldRNRRetry | fRNR |
		ci.QPFieldInitDepth | ci.QPFieldRespRes
	fDepths = ci.QPFieldSendDepth | ci.QPFieldRecvDepth
)

// transitions is the table of docs/sas/qp-states.md (IBTA volume 1, 11.2.5.2). Any state goes to Reset and to Error
// without attributes.
var transitions = map[step]fields{
	{ci.QPReset, ci.QPInit}: {{fAccess | fPKey | fPort, 0}, {fAccess | fPKey | fPort, 0}, {fPKey | fPort | fQKey, 0}},
	{ci.QPInit, ci.QPInit}:  {{0, fAccess | fPKey | fPort}, {0, fAccess | fPKey | fPort}, {0, fPKey | fPort | fQKey}},
	{ci.QPInit, ci.QPRTR}: {
		{ci.QPFieldsRTR &^ ci.QPFieldState, fAccess | fPKey | fAlt},
		{ci.QPFieldsUCRTR &^ ci.QPFieldState, fAccess | fPKey | fAlt}, {0, fPKey | fQKey}},
	{ci.QPRTR, ci.QPRTS}: {
		{ci.QPFieldsRTS &^ ci.QPFieldState, fCur | fAccess | fRNR | fAlt | fAPM},
		{ci.QPFieldSQPSN, fCur | fAccess | fAlt | fAPM}, {ci.QPFieldSQPSN, fCur | fQKey}},
	{ci.QPRTS, ci.QPRTS}: {{0, fCur | fAccess | fRNR | fAlt | fAPM}, {0, fCur | fAccess | fAlt | fAPM}, {0,
		fCur | fQKey}},
	{ci.QPRTS, ci.QPSQD}: {{0, ci.QPFieldSQDEvent}, {0, ci.QPFieldSQDEvent}, {0, ci.QPFieldSQDEvent}},
	{ci.QPSQD, ci.QPSQD}: {{0, fAccess | fPKey | fPort | fPath | fAlt | fAPM},
		{0, fAccess | fPKey | fPort | ci.QPFieldPrimary | fAlt | fAPM}, {0, fPKey | fQKey}},
	{ci.QPSQD, ci.QPRTS}: {{0, fCur | fAccess | fPKey | fPort | fPath | fAlt | fAPM},
		{0, fCur | fAccess | fPKey | fPort | ci.QPFieldPrimary | fAlt | fAPM}, {0, fCur | fPKey | fQKey}},
	{ci.QPSQError, ci.QPRTS}: {{}, {0, fCur | fAccess}, {0, fCur | fQKey}},
}

// draining returns SQD for SQD draining, which a Modify does not distinguish.
func draining(s ci.QPState) ci.QPState {
	if s == ci.QPSQDraining {
		return ci.QPSQD
	}
	return s
}

// judge returns the statuses that a Modify may have.
func (q *QP) judge(set ci.QPField, a ci.QPAttr) (Rule, []ci.Status) {
	type statuses = []ci.Status
	from, to := draining(q.State), draining(q.State)
	named := set&ci.QPFieldState != 0
	if named {
		to = a.State
	}
	set &^= ci.QPFieldState
	if to == ci.QPReset || to == ci.QPError {
		switch {
		case !named:
			return "CI-ModifyQP-12", statuses{ci.InvalidQPState}
		case set == 0:
			return "CI-ModifyQP-08", statuses{ci.Success}
		}
		return "CI-ModifyQP-04", statuses{ci.InvalidParameter, ci.Unsupported}
	}
	t, ok := transitions[step{from, to}]
	if !ok || q.Type == ci.RC && from == ci.QPSQError {
		return "CI-ModifyQP-02", statuses{ci.InvalidQPState}
	}
	f, caps := t[serviceIndex(q.Type)], q.CA.Attr.Caps
	if caps.Has(ci.CapModifyWRDepth) && (to == ci.QPRTR || to == ci.QPRTS || to == ci.QPSQD) {
		f.optional |= fDepths
	}
	switch {
	case set&(fAlt|fAPM) != 0 && !caps.Has(ci.CapAPM), set&fCur != 0 && !caps.Has(ci.CapCurrentQPState),
		set&fDepths != 0 && !caps.Has(ci.CapModifyWRDepth),
		set&fPort != 0 && from == ci.QPSQD && !caps.Has(ci.CapChangePrimaryPort) && a.Port != q.Attr.Port:
		return "CI-ModifyQP-04", append(q.outOfRange(set, a), ci.Unsupported, ci.InvalidParameter)
	case set&f.required != f.required:
		return "CI-ModifyQP-03", statuses{ci.InvalidParameter}
	case set&^(f.required|f.optional) != 0:
		return "CI-ModifyQP-04", statuses{ci.InvalidParameter}
	}
	if wrong := q.outOfRange(set, a); len(wrong) > 0 {
		return "CI-ModifyQP-05", wrong
	}
	if from == ci.QPSQD && q.State == ci.QPSQDraining && set != 0 {
		return "CI-ModifyQP-02", statuses{ci.InvalidQPState}
	}
	return "CI-ModifyQP-01", statuses{ci.Success}
}

func serviceIndex(t ci.QPType) int {
	switch t {
	case ci.RC:
		return 0
	case ci.UC:
		return 1
	}
	return 2
}

// outOfRange returns the statuses of the attributes that are out of range.
func (q *QP) outOfRange(set ci.QPField, a ci.QPAttr) (out []ci.Status) {
	ca := q.CA
	port := ca.Port
	for _, r := range []struct {
		field ci.QPField
		bad   bool
		is    ci.Status
	}{
		{fPort, a.Port == 0 || int(a.Port) > len(ca.Attr.Ports), ci.InvalidPort},
		{fPKey, int(a.Primary.PKeyIndex) >= len(port.PKeys) || ca.pkey(a.Primary.PKeyIndex)&0x7fff == 0,
			ci.InvalidPKey},
		{ci.QPFieldDestNum, a.DestNum > 0xffffff, ci.InvalidParameter},
		{ci.QPFieldRQPSN, a.RQPSN > 0xffffff, ci.InvalidParameter},
		{ci.QPFieldSQPSN, a.SQPSN > 0xffffff, ci.InvalidParameter},
		{ci.QPFieldMTU, a.MTU.Bytes() == 0 || a.MTU > port.MTU, ci.InvalidParameter},
		{ci.QPFieldRetryCount, a.RetryCount > 7, ci.InvalidParameter},
		{ci.QPFieldRNRRetry, a.RNRRetry > 7, ci.InvalidParameter},
		{fRNR, a.MinRNRTimer > 31, ci.InvalidParameter},
		{ci.QPFieldAckTimeout, a.Primary.AckTimeout > 31, ci.InvalidParameter},
		{ci.QPFieldInitDepth, int(a.InitDepth) > ca.Attr.MaxInitDepthPerQP, ci.InvalidParameter},
		{ci.QPFieldRespRes, int(a.RespRes) > ca.Attr.MaxRespResPerQP, ci.InvalidParameter},
		{fAccess, a.Access&^(remoteRights|ci.LocalWrite|ci.BindWindow) != 0, ci.InvalidParameter},
		{fAlt, a.Alternate.AV.Port == 0 || int(a.Alternate.AV.Port) > len(ca.Attr.Ports), ci.InvalidPort},
		{fAlt, int(a.Alternate.PKeyIndex) >= len(port.PKeys), ci.InvalidPKey},
		{fAPM, a.APM == ci.APMRearm, ci.InvalidAPMState}, // no alternate path is ever loaded
		{fCur, draining(a.CurrentState) != draining(q.State), ci.InvalidQPState},
	} {
		if set&r.field != 0 && r.bad {
			out = append(out, r.is)
		}
	}
	return out
}

// Modify observes QP.Modify.
func (q *QP) Modify(set ci.QPField, a ci.QPAttr, err error) *Violation {
	const verb = "QP.Modify"
	if v, ok := q.stale(verb, err); ok {
		return v
	}
	if q.Loose && a.State != ci.QPReset && a.State != ci.QPError {
		return nil
	}
	rule, want := q.judge(set, a)
	if v := wantStatus(verb, err, rule, want...); v != nil || err != nil {
		return v
	}
	q.assign(set, a)
	if set&ci.QPFieldState != 0 {
		q.enter(a)
	}
	q.CA.w.settle()
	return nil
}

// assign sets the attributes that the mask names.
func (q *QP) assign(set ci.QPField, a ci.QPAttr) {
	to := &q.Attr
	for f, do := range map[ci.QPField]func(){
		fAccess: func() { to.Access = a.Access }, fPKey: func() { to.Primary.PKeyIndex = a.Primary.PKeyIndex },
		fPort: func() { to.Port = a.Port }, fQKey: func() { to.QKey = a.QKey },
		ci.QPFieldPrimary: func() { to.Primary.AV = a.Primary.AV }, ci.QPFieldMTU: func() { to.MTU = a.MTU },
		ci.QPFieldAckTimeout: func() { to.Primary.AckTimeout = a.Primary.AckTimeout },
		ci.QPFieldRetryCount: func() { to.RetryCount = a.RetryCount },
		ci.QPFieldRNRRetry:   func() { to.RNRRetry = a.RNRRetry }, fRNR: func() { to.MinRNRTimer = a.MinRNRTimer },
		ci.QPFieldRQPSN:     func() { to.RQPSN, q.expectPSN = a.RQPSN, uint32(a.RQPSN) },
		ci.QPFieldSQPSN:     func() { to.SQPSN, q.sendPSN = a.SQPSN, uint32(a.SQPSN) },
		ci.QPFieldInitDepth: func() { to.InitDepth = a.InitDepth },
		ci.QPFieldRespRes:   func() { to.RespRes = a.RespRes },
		ci.QPFieldDestNum:   func() { to.DestNum = a.DestNum },
	} {
		if set&f != 0 {
			do()
		}
	}
}

// enter moves the QP to the state that a Modify requests.
func (q *QP) enter(a ci.QPAttr) {
	switch a.State {
	case ci.QPReset:
		q.drop()
		q.posted, q.retired, q.torn = [2]int{}, [2]int{}, 0
		q.life++
		q.Attr, q.State, q.stall = ci.QPAttr{}, ci.QPReset, notStalled
		q.isOpen, q.Loose, q.why = false, false, ""
		q.Events.due = nil // an optional one may still be on its way
	case ci.QPError:
		q.toError()
		q.hasFailedEarly = false
	case ci.QPSQD:
		if q.State == ci.QPRTS {
			q.State, q.wantsDrained = ci.QPSQDraining, a.SQDEvent
		}
	case ci.QPRTS:
		q.wantsDrained, q.why = false, ""
		q.State = ci.QPRTS
	default:
		q.State = a.State
	}
}

// toError moves the QP to Error, which flushes all its work (CI-Flush-01).
func (q *QP) toError() {
	if q.State == ci.QPError {
		return
	}
	q.hasFailedEarly = q.State == ci.QPRTR
	q.State, q.stall = ci.QPError, notStalled
	q.doubtWindows()
	q.flushSends()
	q.flushReceives()
	if q.SRQ != nil {
		q.Events.expect(ci.EventLastWQE, "CI-LastWQE-01")
	}
	q.Events.permit(ci.EventQPFatal)
}

// loosen ends the prediction for the QP until its next reset.
func (q *QP) loosen() {
	q.Loose, q.CA.w.Lost = true, true
	q.SendCQ.vague, q.RecvCQ.vague = true, true
	for _, t := range []ci.EventType{ci.EventQPFatal, ci.EventWQReqError, ci.EventWQAccessError, ci.EventLastWQE,
		ci.EventQPComm, ci.EventSQDrained} {
		q.Events.permit(t)
	}
}

// Query observes QP.Query of a QP at rest.
func (q *QP) Query(got ci.QPAttr, err error) *Violation {
	const verb, rule = "QP.Query", Rule("CI-ModifyQP-06")
	if v, ok := q.stale(verb, err); ok {
		return v
	}
	if v := wantStatus(verb, err, rule, ci.Success); v != nil || q.Loose {
		return v
	}
	a := &q.Attr
	diff := func(rule Rule, field string, want, got any) *Violation {
		if want == got {
			return nil
		}
		return violation(rule, verb+": "+field, fmt.Sprint(want), "%v", got)
	}
	if v := diff(cmp.Or(q.why, "CI-ModifyQP-01"), "State", q.State, got.State); v != nil {
		v.Doubt = true
		return v
	}
	const created = "CI-CreateQP-01"
	list := []*Violation{
		diff(created, "Num", q.Num, got.Num), diff(created, "Type", q.Type, got.Type),
		diff(created, "QPCaps", q.QPCaps, got.QPCaps), diff(created, "Flags", q.Flags, got.Flags),
		diff(rule, "CurrentState", q.State, got.CurrentState),
	}
	switch q.State {
	case ci.QPReset, ci.QPError, ci.QPSQError:
	default:
		list = append(list, diff(rule, "Port", a.Port, got.Port),
			diff(rule, "PKeyIndex", a.Primary.PKeyIndex, got.Primary.PKeyIndex))
		if q.Type == ci.UD {
			list = append(list, diff(rule, "QKey", a.QKey, got.QKey))
			break
		}
		const rights = remoteRights
		list = append(list, diff(rule, "Access", a.Access&rights, got.Access&rights))
		if q.State == ci.QPInit {
			break
		}
		got.Primary.AV.User = nil
		list = append(list, diff(rule, "DestNum", a.DestNum, got.DestNum), diff(rule, "MTU", a.MTU, got.MTU),
			diff(rule, "Primary.AV", a.Primary.AV, got.Primary.AV))
		if q.Type != ci.RC {
			break
		}
		list = append(list, diff(rule, "RespRes", a.RespRes, got.RespRes),
			diff(rule, "MinRNRTimer", a.MinRNRTimer, got.MinRNRTimer))
		if q.State != ci.QPRTR {
			list = append(list, diff(rule, "AckTimeout", a.Primary.AckTimeout, got.Primary.AckTimeout),
				diff(rule, "RetryCount", a.RetryCount, got.RetryCount), diff(rule, "RNRRetry", a.RNRRetry,
					got.RNRRetry),
				diff(rule, "InitDepth", a.InitDepth, got.InitDepth))
		}
	}
	for _, v := range list {
		if v != nil {
			return v
		}
	}
	return nil
}

// SRQ is a shared receive queue.
type SRQ struct {
	Object
	MaxWR, MaxSGE int // granted
	Limit         int // armed; 0: not
	Events        Events

	rq              []*request
	posted, retired int
	torn            int // as that of QP
}

// CreateSRQ observes PD.CreateSRQ. granted is what Query returned.
func (pd *PD) CreateSRQ(a, granted ci.SRQAttr, err error) (*SRQ, *Violation) {
	const verb = "PD.CreateSRQ"
	lim := pd.CA.Attr
	switch {
	case pd.Dead:
	case !lim.Caps.Has(ci.CapSRQ):
		return nil, wantStatus(verb, err, "CI-Claims-01", ci.Unsupported)
	case a.MaxWR < 1 || a.MaxWR > lim.MaxSRQWRs:
		return nil, wantStatus(verb, err, "CI-CreateSRQ-02", ci.InvalidMaxWRs)
	case a.MaxSGE < 0 || a.MaxSGE > lim.MaxSRQSGEs:
		return nil, wantStatus(verb, err, "CI-CreateSRQ-02", ci.InvalidMaxSGE)
	}
	if v := pd.created(KindSRQ, verb, err); v != nil || err != nil {
		return nil, v
	}
	if granted.MaxWR < a.MaxWR || granted.MaxSGE < a.MaxSGE {
		return nil, violation("CI-CreateSRQ-01", verb, fmt.Sprintf("at least %d and %d", a.MaxWR, a.MaxSGE),
			"%d and %d",
			granted.MaxWR, granted.MaxSGE)
	}
	s := &SRQ{MaxWR: granted.MaxWR, MaxSGE: granted.MaxSGE}
	s.init(KindSRQ, pd.CA, pd)
	return s, s.Query(granted, nil)
}

// Destroy observes SRQ.Destroy.
func (s *SRQ) Destroy(err error) *Violation { _, v := s.destroy(err); return v }

// Modify observes SRQ.Modify. granted is the size that Query returns after it.
func (s *SRQ) Modify(set ci.SRQField, a ci.SRQAttr, granted int, err error) *Violation {
	const verb = "SRQ.Modify"
	if v, ok := s.stale(verb, err); ok {
		return v
	}
	size, lim := s.MaxWR, s.CA.Attr
	rule, want := Rule("CI-ModifySRQ-01"), []ci.Status(nil)
	if set&ci.SRQFieldMaxWR != 0 {
		size = a.MaxWR
		switch {
		case !lim.Caps.Has(ci.CapModifySRQDepth):
			rule, want = "CI-Claims-01", append(want, ci.Unsupported)
		case size < 1 || size > lim.MaxSRQWRs || size < len(s.rq):
			rule, want = "CI-ModifySRQ-02", append(want, ci.InvalidMaxWRs, ci.InvalidParameter, ci.Overflow)
		}
	}
	isOver := set&ci.SRQFieldLimit != 0 && (a.Limit < 0 || a.Limit > size)
	if isOver {
		rule, want = "CI-ModifySRQ-03", append(want, ci.InvalidParameter)
	}
	if len(want) == 0 || isOver && len(want) == 1 && a.Limit <= granted { // more may be granted than was requested
		want = append(want, ci.Success)
	}
	if v := wantStatus(verb, err, rule, want...); v != nil || err != nil {
		return v
	}
	if set&ci.SRQFieldMaxWR != 0 {
		if granted < size {
			return violation("CI-ModifySRQ-02", verb, fmt.Sprintf("at least %d entries", size), "%d", granted)
		}
		s.MaxWR = granted
	}
	if set&ci.SRQFieldLimit != 0 {
		s.Limit = a.Limit
		s.checkLimit()
	}
	return nil
}

// Query observes SRQ.Query.
func (s *SRQ) Query(got ci.SRQAttr, err error) *Violation {
	const verb = "SRQ.Query"
	if v, ok := s.stale(verb, err); ok {
		return v
	}
	if v := wantStatus(verb, err, "CI-CreateSRQ-01", ci.Success); v != nil {
		return v
	}
	if want := (ci.SRQAttr{MaxWR: s.MaxWR, MaxSGE: s.MaxSGE, Limit: s.Limit}); got != want {
		rule := Rule("CI-ModifySRQ-01")
		if got.MaxWR != want.MaxWR {
			rule = "CI-ModifySRQ-02"
		}
		return violation(rule, verb, fmt.Sprintf("%+v", want), "%+v", got)
	}
	return nil
}

// checkLimit raises the limit event once for each arming.
func (s *SRQ) checkLimit() {
	if s.Limit > 0 && len(s.rq) < s.Limit {
		s.Limit = 0
		s.Events.expect(ci.EventSRQLimit, "CI-ModifySRQ-01")
	}
}

// Changes returns the attributes that can be changed in RTS, or in SQD, and have an effect that the model knows.
func Changes(t ci.QPType, isDrained bool) (out []ci.QPField) {
	s := step{ci.QPRTS, ci.QPRTS}
	if isDrained {
		s = step{ci.QPSQD, ci.QPSQD}
	}
	may := transitions[s][serviceIndex(t)].optional &^ (fCur | fAlt | fAPM | fPort | ci.QPFieldPrimary)
	for f := ci.QPField(1); f <= may; f <<= 1 {
		if may&f != 0 {
			out = append(out, f)
		}
	}
	return out
}

// Permitted returns the attributes that a transition of a service requires or permits.
func Permitted(t ci.QPType, from, to ci.QPState) ci.QPField {
	f := transitions[step{from, to}][serviceIndex(t)]
	return f.required | f.optional
}

// Fields returns the attributes that each transition of a service requires, by the states before and after it.
func Fields(t ci.QPType) map[[2]ci.QPState]ci.QPField {
	out := map[[2]ci.QPState]ci.QPField{}
	for s, f := range transitions {
		out[[2]ci.QPState{s.from, s.to}] = f[serviceIndex(t)].required
	}
	return out
}
