//go:build linux && (amd64 || arm64)

package verbs

import (
	"errors"
	"syscall"

	"ciddk/ci"
	"ciddk/ci/driver"
	"ciddk/hca/verbs/internal/ibv"
)

// masks are the fields of QP.Modify in the mask of ibv_modify_qp.
var masks = []struct {
	field ci.QPField
	mask  int
}{
	{ci.QPFieldState, ibv.QPState}, {ci.QPFieldCurrentState, ibv.QPCurState},
	{ci.QPFieldSQDEvent, ibv.QPEnSQDAsyncNotify}, {ci.QPFieldAccess, ibv.QPAccessFlags},
	{ci.QPFieldPKeyIndex, ibv.QPPKeyIndex}, {ci.QPFieldPort, ibv.QPPort}, {ci.QPFieldQKey, ibv.QPQKey},
	{ci.QPFieldPrimary, ibv.QPAV}, {ci.QPFieldMTU, ibv.QPPathMTU}, {ci.QPFieldAckTimeout, ibv.QPTimeout},
	{ci.QPFieldRetryCount, ibv.QPRetryCnt}, {ci.QPFieldRNRRetry, ibv.QPRNRRetry},
	{ci.QPFieldMinRNRTimer, ibv.QPMinRNRTimer}, {ci.QPFieldRQPSN, ibv.QPRQPSN}, {ci.QPFieldSQPSN, ibv.QPSQPSN},
	{ci.QPFieldInitDepth, ibv.QPMaxQPRdAtomic}, {ci.QPFieldRespRes, ibv.QPMaxDestRdAtomic},
	{ci.QPFieldDestNum, ibv.QPDestQPN}, {ci.QPFieldAlternate, ibv.QPAltPath}, {ci.QPFieldAPM, ibv.QPPathMigState},
	{ci.QPFieldSendDepth, ibv.QPCapMask}, {ci.QPFieldRecvDepth, ibv.QPCapMask},
}

// most24 is the largest PSN and QP number. The library takes 32 bits.
const most24 = 1<<24 - 1

// Modify changes state and attributes. Status: as ci.QP has them; a status for EINVAL by modifyStatus.
func (q *qp) Modify(set ci.QPField, a ci.QPAttr) error {
	const verb = "QP.Modify"
	const known = ci.QPFieldRecvDepth<<1 - 1
	q.modify.Lock()
	defer q.modify.Unlock()
	switch {
	case !q.refs.Alive():
		return fail(verb, ci.InvalidQPHandle, "")
	case set&^known != 0:
		return fail(verb, ci.InvalidParameter, "unknown field")
	case a.User != nil:
		return fail(verb, ci.InvalidParameter, "private data, which this driver has no user library for")
	case set&(ci.QPFieldSendDepth|ci.QPFieldRecvDepth) != 0:
		return fail(verb, ci.Unsupported, "CapModifyWRDepth is not claimed")
	case set&(ci.QPFieldAlternate|ci.QPFieldAPM) != 0 && !q.hca.claims().Has(ci.CapAPM):
		return fail(verb, ci.Unsupported, "CapAPM is not claimed")
	case set&ci.QPFieldCurrentState != 0 && !q.hca.claims().Has(ci.CapCurrentQPState):
		return fail(verb, ci.Unsupported, "CapCurrentQPState is not claimed")
	case set&ci.QPFieldPrimary != 0 && a.Primary.AV.GRH.SGIDIndex > 0xff,
		set&ci.QPFieldAlternate != 0 && a.Alternate.AV.GRH.SGIDIndex > 0xff:
		return fail(verb, ci.InvalidParameter, "SGIDIndex: there is no such entry")
	case set&ci.QPFieldAccess != 0 && a.Access&^rights != 0:
		return fail(verb, ci.InvalidParameter, "unknown rights")
	case set&ci.QPFieldSQPSN != 0 && a.SQPSN > most24, set&ci.QPFieldRQPSN != 0 && a.RQPSN > most24,
		set&ci.QPFieldDestNum != 0 && a.DestNum > most24:
		return fail(verb, ci.InvalidParameter, "a number of 24 bits is out of range")
	}
	v := ibv.QPAttr{PathMTU: int32(a.MTU), PathMigState: int32(a.APM) - 1, QKey: uint32(a.QKey),
		RQPSN: uint32(a.RQPSN), SQPSN: uint32(a.SQPSN), DestQPNum: uint32(a.DestNum), Access: accessOf(a.Access),
		AH: addressOf(&a.Primary.AV), AltAH: addressOf(&a.Alternate.AV), PKeyIndex: a.Primary.PKeyIndex,
		AltPKeyIndex: a.Alternate.PKeyIndex, MaxRdAtomic: a.InitDepth, MaxDestRdAtomic: a.RespRes,
		MinRNR: a.MinRNRTimer, PortNum: a.Port, Timeout: uint8(a.Primary.AckTimeout), RetryCnt: a.RetryCount,
		RNRRetry: a.RNRRetry, AltPortNum: a.Alternate.AV.Port, AltTimeout: uint8(a.Alternate.AckTimeout)}
	if a.SQDEvent {
		v.EnSQDAsyncNotify = 1
	}
	var ok1, ok2 bool
	v.State, ok1 = fromState(a.State)
	v.CurState, ok2 = fromState(a.CurrentState)
	if set&ci.QPFieldState != 0 && !ok1 || set&ci.QPFieldCurrentState != 0 && !ok2 {
		return fail(verb, ci.InvalidQPState, "there is no such state to set")
	}
	mask := 0
	for _, m := range masks {
		if set&m.field != 0 {
			mask |= m.mask
		}
	}
	// A QP that goes to Reset forgets its requests, so no post may be half way through.
	q.sq.mu.Lock()
	defer q.sq.mu.Unlock()
	q.rq.mu.Lock()
	defer q.rq.mu.Unlock()
	if q.sq.dead {
		return fail(verb, ci.InvalidQPHandle, "")
	}
	err := q.hca.dev.ModifyQP(q.qp, v, mask)
	if errors.Is(err, syscall.EINVAL) && mask == ibv.QPState && a.State == ci.QPError && q.throughInit() == nil {
		err = q.hca.dev.ModifyQP(q.qp, v, mask)
	}
	if err != nil {
		return reject(verb, err, q.modifyStatus(err, set, &a))
	}
	if set&ci.QPFieldState != 0 {
		q.sq.state, q.rq.state = state(a.State), state(a.State)
		if a.State == ci.QPReset {
			q.sq.log.reset()
		}
	}
	return nil
}

// throughInit moves a QP from Reset to Init, on its way to Error: Linux has no transition from Reset to Error.
func (q *qp) throughInit() error {
	v, err := q.hca.dev.QueryQP(q.qp)
	if err != nil || stateOf(v.State, false) != ci.QPReset {
		return syscall.EINVAL
	}
	v = ibv.QPAttr{PortNum: 1}
	v.State, _ = fromState(ci.QPInit)
	mask := ibv.QPState | ibv.QPPort | ibv.QPPKeyIndex | ibv.QPAccessFlags
	if q.create.Type == ci.UD {
		mask ^= ibv.QPAccessFlags | ibv.QPQKey
	}
	return q.hca.dev.ModifyQP(q.qp, v, mask)
}

// modifyStatus names what is wrong with a Modify that the provider rejected with EINVAL and no more detail.
func (q *qp) modifyStatus(err error, set ci.QPField, a *ci.QPAttr) ci.Status {
	if !errors.Is(err, syscall.EINVAL) {
		return ci.Success
	}
	v, e := q.hca.dev.QueryQP(q.qp)
	if e != nil {
		return ci.Success
	}
	from := stateOf(v.State, v.SQDraining != 0)
	if _, err := driver.CheckModify(q.create.Type, q.hca.claims(), from, set, a); err != nil {
		return ci.StatusOf(err)
	}
	ports := q.hca.attr.PhysPortCnt
	switch {
	case set&ci.QPFieldPort != 0 && (a.Port < 1 || a.Port > ports),
		set&ci.QPFieldPrimary != 0 && (a.Primary.AV.Port < 1 || a.Primary.AV.Port > ports),
		set&ci.QPFieldAlternate != 0 && (a.Alternate.AV.Port < 1 || a.Alternate.AV.Port > ports):
		return ci.InvalidPort
	case set&ci.QPFieldPKeyIndex != 0 && !q.isPKey(max(a.Port, v.PortNum, 1), a.Primary.PKeyIndex),
		set&ci.QPFieldAlternate != 0 && !q.isPKey(a.Alternate.AV.Port, a.Alternate.PKeyIndex):
		return ci.InvalidPKey
	case set&ci.QPFieldAPM != 0 &&
		(a.APM == ci.APMArmed || v.PathMigState != 0 || set&ci.QPFieldAlternate == 0):
		return ci.InvalidAPMState
	}
	return ci.InvalidParameter
}

// isPKey reports whether a port has a valid P_Key at an index.
func (q *qp) isPKey(port uint8, index uint16) bool {
	p, err := q.hca.port(port)
	return err != nil || int(index) < len(p.PKeys) && p.PKeys[index]&0x7fff != 0
}
