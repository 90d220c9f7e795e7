package driver

import (
	"strings"

	"ciddk/ci"
)

// fields are the attributes that a transition needs, and those that it may set.
type fields struct{ need, may ci.QPField }

type transition struct{ from, to ci.QPState }

const (
	ucLive    = ci.QPFieldAccess | ci.QPFieldAlternate | ci.QPFieldAPM
	rcLive    = ucLive | ci.QPFieldMinRNRTimer
	ucDrained = ci.QPFieldPrimary | ci.QPFieldPort | ci.QPFieldPKeyIndex
	rcDrained = ucDrained | ci.QPFieldAckTimeout | ci.QPFieldRetryCount | ci.QPFieldRNRRetry |
		ci.QPFieldInitDepth | ci.QPFieldRespRes
	depths = ci.QPFieldSendDepth | ci.QPFieldRecvDepth
	inRTR  = ci.QPFieldAlternate | ci.QPFieldAccess | ci.QPFieldPKeyIndex
)

// transitions are those of RC, UC and UD (IBTA volume 1, 11.2.5.2, tables 91 to 94).
var transitions = [3]map[transition]fields{
	{
		{ci.QPReset, ci.QPInit}: {need: ci.QPFieldsInit},
		{ci.QPInit, ci.QPInit}:  {may: ci.QPFieldsInit},
		{ci.QPInit, ci.QPRTR}:   {ci.QPFieldsRTR, inRTR},
		{ci.QPRTR, ci.QPRTS}:    {ci.QPFieldsRTS, rcLive},
		{ci.QPRTS, ci.QPRTS}:    {may: rcLive},
		{ci.QPRTS, ci.QPSQD}:    {may: ci.QPFieldSQDEvent},
		{ci.QPSQD, ci.QPSQD}:    {may: rcLive | rcDrained},
		{ci.QPSQD, ci.QPRTS}:    {may: rcLive | rcDrained},
	},
	{
		{ci.QPReset, ci.QPInit}:  {need: ci.QPFieldsInit},
		{ci.QPInit, ci.QPInit}:   {may: ci.QPFieldsInit},
		{ci.QPInit, ci.QPRTR}:    {ci.QPFieldsUCRTR, inRTR},
		{ci.QPRTR, ci.QPRTS}:     {ci.QPFieldsUCRTS, ucLive},
		{ci.QPRTS, ci.QPRTS}:     {may: ucLive},
		{ci.QPRTS, ci.QPSQD}:     {may: ci.QPFieldSQDEvent},
		{ci.QPSQD, ci.QPSQD}:     {may: ucLive | ucDrained},
		{ci.QPSQD, ci.QPRTS}:     {may: ucLive | ucDrained},
		{ci.QPSQError, ci.QPRTS}: {may: ci.QPFieldAccess},
	},
	{
		{ci.QPReset, ci.QPInit}:  {need: ci.QPFieldsUDInit},
		{ci.QPInit, ci.QPInit}:   {may: ci.QPFieldsUDInit},
		{ci.QPInit, ci.QPRTR}:    {ci.QPFieldsUDRTR, ci.QPFieldPKeyIndex | ci.QPFieldQKey},
		{ci.QPRTR, ci.QPRTS}:     {ci.QPFieldsUDRTS, ci.QPFieldQKey},
		{ci.QPRTS, ci.QPRTS}:     {may: ci.QPFieldQKey},
		{ci.QPRTS, ci.QPSQD}:     {may: ci.QPFieldSQDEvent},
		{ci.QPSQD, ci.QPSQD}:     {may: ci.QPFieldQKey | ci.QPFieldPKeyIndex},
		{ci.QPSQD, ci.QPRTS}:     {may: ci.QPFieldQKey | ci.QPFieldPKeyIndex},
		{ci.QPSQError, ci.QPRTS}: {may: ci.QPFieldQKey},
	},
}

// transitionOf returns the fields of a transition, without QPFieldState. Special QPs are datagram QPs whose port is set
// at their creation; Init may repeat it.
func transitionOf(t ci.QPType, from, to ci.QPState) (f fields, ok bool) {
	if to == ci.QPReset || to == ci.QPError {
		return f, true
	}
	service := 2
	switch t {
	case ci.RC:
		service = 0
	case ci.UC:
		service = 1
	}
	f, ok = transitions[service][transition{from, to}]
	f.need, f.may = f.need&^ci.QPFieldState, f.may&^ci.QPFieldState
	if t == ci.QP0 || t == ci.QP1 {
		f.need, f.may = f.need&^ci.QPFieldPort, f.may&^ci.QPFieldPort
		if from == ci.QPReset {
			f.may |= ci.QPFieldPort
		}
	}
	if to == ci.QPRTS {
		f.may |= ci.QPFieldCurrentState
	}
	if to == ci.QPRTR || to == ci.QPRTS || to == ci.QPSQD {
		f.may |= depths
	}
	return f, ok
}

// CheckModify checks the mask of a QP.Modify: whether the service has the transition from the state that the QP is in,
// and the attributes that it needs and takes (IBTA volume 1, 11.2.5.2). The values of the attributes are left to the
// caller, except for CurrentState. It returns the state after the Modify; after an error, the state before it.
//
// It checks in this order: unknown fields (InvalidParameter), the transition (InvalidQPState), claims (Unsupported),
// missing attributes and those that the transition does not take (InvalidParameter), CurrentState, and attributes that
// a QP whose send queue is draining does not take yet (InvalidQPState).
func CheckModify(t ci.QPType, claims ci.Caps, from ci.QPState, set ci.QPField, a *ci.QPAttr) (ci.QPState, error) {
	fail := func(s ci.Status, detail string) (ci.QPState, error) {
		return from, &ci.Error{Verb: "QP.Modify", Status: s, Detail: detail}
	}
	base := from
	if from == ci.QPSQDraining {
		base = ci.QPSQD
	}
	to := base
	switch {
	case set&^(ci.QPFieldRecvDepth<<1-1) != 0:
		return fail(ci.InvalidParameter, "unknown field")
	case set&ci.QPFieldState != 0:
		to = a.State
	case from == ci.QPReset || from == ci.QPError:
		return fail(ci.InvalidQPState, "no attribute can change in "+from.String())
	}
	f, ok := transitionOf(t, base, to)
	live, _ := transitionOf(t, ci.QPRTS, ci.QPRTS)
	given := set &^ ci.QPFieldState
	missing, extra := f.need&^given, given&^(f.need|f.may)
	isCurrent := a.CurrentState == from || a.CurrentState == base
	switch {
	case !ok:
		return fail(ci.InvalidQPState, from.String()+" to "+to.String())
	case set&depths != 0 && !claims.Has(ci.CapModifyWRDepth):
		return fail(ci.Unsupported, "queue depths are fixed at create")
	case set&(ci.QPFieldAlternate|ci.QPFieldAPM) != 0 && !claims.Has(ci.CapAPM):
		return fail(ci.Unsupported, "path migration is not claimed")
	case set&ci.QPFieldCurrentState != 0 && !claims.Has(ci.CapCurrentQPState):
		return fail(ci.Unsupported, "the current state is not claimed")
	case missing != 0:
		return fail(ci.InvalidParameter, "missing "+fieldNames(missing))
	case extra != 0:
		return fail(ci.InvalidParameter, from.String()+" to "+to.String()+" takes no "+fieldNames(extra))
	case set&ci.QPFieldCurrentState != 0 && !isCurrent:
		return fail(ci.InvalidQPState, "the QP is in "+from.String()+", not in "+a.CurrentState.String())
	case from == ci.QPSQDraining && given&^live.may != 0:
		return fail(ci.InvalidQPState, "the send queue has not drained")
	}
	return to, nil
}

// fieldNames returns the names of fields for an error message.
func fieldNames(f ci.QPField) string {
	var list []string
	for i, n := range qpFieldNames {
		if f&(1<<i) != 0 {
			list = append(list, n)
		}
	}
	return strings.Join(list, ", ")
}

var qpFieldNames = [...]string{
	"State", "CurrentState", "SQDEvent", "Access", "PKeyIndex", "Port", "QKey", "Primary", "MTU", "AckTimeout",
	"RetryCount", "RNRRetry", "MinRNRTimer", "RQPSN", "SQPSN", "InitDepth", "RespRes", "DestNum", "Alternate",
	"APM", "SendDepth", "RecvDepth",
}
