package cisuite

import "ciddk/ci"

// The state machine of queue pairs: IBTA volume 1, 10.3.1 for the states, 11.2.5.2 for the attributes. The certifier
// has its own table on purpose and uses that of no driver.

// edge is a transition that a Modify can request.
type edge struct{ from, to ci.QPState }

// qpRule holds the fields that a transition requires and those that it permits, besides the state.
type qpRule struct{ need, may ci.QPField }

const (
	connInit = ci.QPFieldPort | ci.QPFieldPKeyIndex | ci.QPFieldAccess
	dgrmInit = ci.QPFieldPort | ci.QPFieldPKeyIndex | ci.QPFieldQKey
)

// qpRules returns the legal transitions of a service. Those to Reset and to Error are omitted, since they are legal
// from every state.
func qpRules(typ ci.QPType) map[edge]qpRule {
	switch typ {
	case ci.RC:
		return map[edge]qpRule{
			{ci.QPReset, ci.QPInit}: {need: connInit},
			{ci.QPInit, ci.QPInit}:  {may: connInit},
			{ci.QPInit, ci.QPRTR}: {need: ci.QPFieldPrimary | ci.QPFieldMTU | ci.QPFieldDestNum | ci.QPFieldRQPSN |
				ci.QPFieldRespRes | ci.QPFieldMinRNRTimer, may: ci.QPFieldAccess | ci.QPFieldPKeyIndex},
			{ci.QPRTR, ci.QPRTS}: {need: ci.QPFieldSQPSN | ci.QPFieldAckTimeout | ci.QPFieldRetryCount |
				ci.QPFieldRNRRetry |
				ci.QPFieldInitDepth, may: ci.QPFieldAccess | ci.QPFieldMinRNRTimer},
			{ci.QPRTS, ci.QPRTS}: {may: ci.QPFieldAccess | ci.QPFieldMinRNRTimer},
			{ci.QPRTS, ci.QPSQD}: {may: ci.QPFieldSQDEvent},
			{ci.QPSQD, ci.QPSQD}: {may: ci.QPFieldPrimary | ci.QPFieldPKeyIndex | ci.QPFieldAccess |
				ci.QPFieldAckTimeout | ci.QPFieldRetryCount | ci.QPFieldRNRRetry | ci.QPFieldInitDepth |
				ci.QPFieldRespRes | ci.QPFieldMinRNRTimer},
			{ci.QPSQD, ci.QPRTS}: {may: ci.QPFieldAccess | ci.QPFieldMinRNRTimer},
		}
	case ci.UC:
		return map[edge]qpRule{
			{ci.QPReset, ci.QPInit}: {need: connInit},
			{ci.QPInit, ci.QPInit}:  {may: connInit},
			{ci.QPInit, ci.QPRTR}: {need: ci.QPFieldPrimary | ci.QPFieldMTU | ci.QPFieldDestNum | ci.QPFieldRQPSN,
				may: ci.QPFieldAccess | ci.QPFieldPKeyIndex},
			{ci.QPRTR, ci.QPRTS}:     {need: ci.QPFieldSQPSN, may: ci.QPFieldAccess},
			{ci.QPRTS, ci.QPRTS}:     {may: ci.QPFieldAccess},
			{ci.QPRTS, ci.QPSQD}:     {may: ci.QPFieldSQDEvent},
			{ci.QPSQD, ci.QPSQD}:     {may: ci.QPFieldPrimary | ci.QPFieldPKeyIndex | ci.QPFieldAccess},
			{ci.QPSQD, ci.QPRTS}:     {may: ci.QPFieldAccess},
			{ci.QPSQError, ci.QPRTS}: {may: ci.QPFieldAccess},
		}
	default:
		return map[edge]qpRule{
			{ci.QPReset, ci.QPInit}:  {need: dgrmInit},
			{ci.QPInit, ci.QPInit}:   {may: dgrmInit},
			{ci.QPInit, ci.QPRTR}:    {may: ci.QPFieldPKeyIndex | ci.QPFieldQKey},
			{ci.QPRTR, ci.QPRTS}:     {need: ci.QPFieldSQPSN, may: ci.QPFieldQKey},
			{ci.QPRTS, ci.QPRTS}:     {may: ci.QPFieldQKey},
			{ci.QPRTS, ci.QPSQD}:     {may: ci.QPFieldSQDEvent},
			{ci.QPSQD, ci.QPSQD}:     {may: ci.QPFieldPKeyIndex | ci.QPFieldQKey},
			{ci.QPSQD, ci.QPRTS}:     {may: ci.QPFieldQKey},
			{ci.QPSQError, ci.QPRTS}: {may: ci.QPFieldQKey},
		}
	}
}

// neverAllowed returns the fields that a transition of this service never permits, with any optional capability:
// attributes of another step of the state machine or of another service.
func neverAllowed(e edge, r qpRule) ci.QPField {
	all := ci.QPFieldPort | ci.QPFieldQKey | ci.QPFieldMTU | ci.QPFieldDestNum | ci.QPFieldRQPSN | ci.QPFieldSQPSN |
		ci.QPFieldSQDEvent
	if e.from == ci.QPSQD {
		all &^= ci.QPFieldPort // CapChangePrimaryPort
	}
	return all &^ (r.need | r.may)
}
