package ci

// The steps of this file return the arguments of QP.Modify for the usual transitions, so that no field is forgotten and
// none is set that the service does not have:
//
//	err := qp.Modify(ci.ToInit{Port: 1, Access: ci.RemoteWrite}.For(ci.RC))
//
// The method For selects the fields of a service. QP.Modify with a mask and attributes of its own remains for all other
// transitions.

// ToInit holds the attributes of the transition from Reset to Init.
type ToInit struct {
	Port      uint8 // primary port, counted from 1; QP0 and QP1 have theirs from CreateSpecialQP
	PKeyIndex uint16
	Access    Access // RC, UC: the rights of the peer
	QKey      QKey   // UD, QP0, QP1
}

// For returns the arguments of QP.Modify for a QP of type t.
func (s ToInit) For(t QPType) (QPField, QPAttr) {
	a := QPAttr{State: QPInit, Primary: Path{PKeyIndex: s.PKeyIndex}}
	switch t {
	case UD:
		a.Port, a.QKey = s.Port, s.QKey
		return QPFieldsUDInit, a
	case QP0, QP1:
		a.QKey = s.QKey
		return QPFieldsSpecial, a
	default:
		a.Port, a.Access = s.Port, s.Access
		return QPFieldsInit, a
	}
}

// ToRTR holds the attributes of the transition from Init to RTR. UD, QP0 and QP1 need none: ToRTR{} is complete for
// them.
type ToRTR struct {
	AV          AVAttr // address of the peer
	MTU         MTU    // of the path
	DestNum     QPN    // of the peer's QP
	RQPSN       PSN    // of the peer's first packet
	RespRes     uint8  // RC: reads and atomics of the peer that are executed at once
	MinRNRTimer uint8  // RC: IBTA RNR code, see QPAttr
}

// For returns the arguments of QP.Modify for a QP of type t.
func (s ToRTR) For(t QPType) (QPField, QPAttr) {
	connected := QPAttr{State: QPRTR, Primary: Path{AV: s.AV}, MTU: s.MTU, DestNum: s.DestNum, RQPSN: s.RQPSN}
	switch t {
	case UD, QP0, QP1:
		return QPFieldsUDRTR, QPAttr{State: QPRTR}
	case UC:
		return QPFieldsUCRTR, connected
	default:
		connected.RespRes, connected.MinRNRTimer = s.RespRes, s.MinRNRTimer
		return QPFieldsRTR, connected
	}
}

// ToRTS holds the attributes of the transition from RTR to RTS. Services other than RC need SQPSN only.
type ToRTS struct {
	SQPSN      PSN     // of the first packet; the peer's RQPSN
	AckTimeout TimeExp // RC: 4.096 us * 2^n, 0 = never
	RetryCount uint8   // RC: 0-7
	RNRRetry   uint8   // RC: 0-6, 7 = for ever
	InitDepth  uint8   // RC: reads and atomics outstanding
}

// For returns the arguments of QP.Modify for a QP of type t.
func (s ToRTS) For(t QPType) (QPField, QPAttr) {
	a := QPAttr{State: QPRTS, SQPSN: s.SQPSN}
	switch t {
	case UC:
		return QPFieldsUCRTS, a
	case UD, QP0, QP1:
		return QPFieldsUDRTS, a
	default:
		a.Primary.AckTimeout = s.AckTimeout
		a.RetryCount, a.RNRRetry, a.InitDepth = s.RetryCount, s.RNRRetry, s.InitDepth
		return QPFieldsRTS, a
	}
}

// ToSQD returns the arguments of QP.Modify from RTS to SQD; event requests an EventSQDrained.
func ToSQD(event bool) (QPField, QPAttr) {
	return QPFieldState | QPFieldSQDEvent, QPAttr{State: QPSQD, SQDEvent: event}
}

// BackToRTS returns the arguments of QP.Modify from SQD or SQError to RTS.
func BackToRTS() (QPField, QPAttr) { return QPFieldState, QPAttr{State: QPRTS} }

// ToReset returns the arguments of QP.Modify from any state to Reset.
func ToReset() (QPField, QPAttr) { return QPFieldState, QPAttr{State: QPReset} }

// ToError returns the arguments of QP.Modify from any state to Error.
func ToError() (QPField, QPAttr) { return QPFieldState, QPAttr{State: QPError} }
