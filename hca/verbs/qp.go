//go:build linux && (amd64 || arm64)

package verbs

import (
	"errors"
	"sync"
	"syscall"
	"time"

	"ciddk/ci"
	"ciddk/ci/driver"
	"ciddk/ci/wrrules"
	"ciddk/hca/verbs/internal/ibv"
)

type qp struct {
	ci.UnimplementedQP
	refs       driver.Refs
	pd         *pd
	hca        *HCA
	qp         ibv.QP
	num        uint32
	context    any
	send, recv *cq
	srq        *srq           // or nil
	uses       []*driver.Refs // that the QP depends on
	create     ci.QPCreate
	granted    ci.QPCaps
	notify     driver.Notifier

	groupMu sync.Mutex
	groups  map[group]int // attachments to each group

	modify sync.Mutex // serializes Modify and Query
	sq     sendQueue
	rq     recvQueue
}

// services has the type of a QP in the library.
var services = map[ci.QPType]int32{ci.RC: ibv.QPTypeRC, ci.UC: ibv.QPTypeUC, ci.UD: ibv.QPTypeUD}

// CreateQP creates a QP in Reset. Status: as ci.PD has them.
func (p *pd) CreateQP(c ci.QPCreate) (ci.QP, error) {
	const verb = "PD.CreateQP"
	h := p.hca
	if err := h.checkQP(verb, &c); err != nil {
		return nil, err
	}
	send, ok1 := ci.As[*cq](c.SendCQ)
	recv, ok2 := ci.As[*cq](c.RecvCQ)
	if !ok1 || !ok2 || send.hca != h || recv.hca != h {
		return nil, fail(verb, ci.InvalidCQHandle, "the CQs are not CQs of this adapter")
	}
	uses := []*driver.Refs{&p.refs, &send.refs, &recv.refs}
	invalid := []ci.Status{ci.InvalidPDHandle, ci.InvalidCQHandle, ci.InvalidCQHandle, ci.InvalidSRQHandle}
	var shared *srq
	var sharedQueue ibv.SRQ
	if c.SRQ != nil {
		s, ok := ci.As[*srq](c.SRQ)
		if !ok || s.hca != h {
			return nil, fail(verb, ci.InvalidSRQHandle, "the SRQ is not an SRQ of this adapter")
		}
		shared, sharedQueue, uses = s, s.srq, append(uses, &s.refs)
	}
	if destroyed, ok := driver.GetAll(uses...); !ok {
		return nil, fail(verb, invalid[destroyed], "")
	}
	if err := h.qps.Take(verb); err != nil {
		driver.PutAll(uses)
		return nil, err
	}
	q := &qp{pd: p, hca: h, send: send, recv: recv, srq: shared, uses: uses, create: c, context: c.Context,
		notify: driver.Notifier{OnEvent: c.OnEvent, Context: c.Context}}
	init := ibv.QPInitAttr{Type: services[c.Type], Cap: ibv.QPCap{MaxSendWR: uint32(c.SendDepth),
		MaxRecvWR: uint32(c.RecvDepth), MaxSendSGE: uint32(c.SendSGE), MaxRecvSGE: uint32(c.RecvSGE),
		MaxInline: uint32(c.MaxInline)}}
	if c.Flags&ci.QPSignalAll != 0 {
		init.SignalAll = 1
	}
	made, list, caps, err := h.createQP(p.pd, init, send.cq, recv.cq, sharedQueue)
	if err != nil {
		h.qps.Give()
		driver.PutAll(uses)
		return nil, h.qpError(verb, err, &c)
	}
	q.qp, q.num = made, made.Num()
	q.granted = ci.QPCaps{SendDepth: int(caps.MaxSendWR), RecvDepth: int(caps.MaxRecvWR), SendSGE: int(caps.MaxSendSGE),
		RecvSGE: int(caps.MaxRecvSGE), MaxInline: int(caps.MaxInline)}
	q.sq.rules = wrrules.Rules{Type: c.Type, Caps: h.claims(), Atomicity: ci.Atomicity(h.attr.AtomicCap),
		MaxReadSGEs: max(limit(h.attr.MaxSGERd), 1), SendSGE: q.granted.SendSGE, MaxInline: q.granted.MaxInline}
	q.sq.list = list
	q.rq.list = h.dev.RecvList(made, postBatch, q.granted.RecvSGE)
	send.use(q)
	recv.use(q)
	h.mu.Lock()
	h.qp[made.Ptr()] = q
	h.mu.Unlock()
	return q, nil
}

// createQP creates a QP of the library, and the list for its send queue.
func (h *HCA) createQP(pd ibv.PD, init ibv.QPInitAttr, send, recv ibv.CQ, srq ibv.SRQ) (q ibv.QP,
	list *ibv.List[ibv.SendWR], caps ibv.QPCap, err error,
) {
	if !h.extended {
		if q, caps, err = h.dev.CreateQP(pd, init, send, recv, srq); err == nil {
			list = h.dev.SendList(q, postBatch, int(caps.MaxSendSGE), int(caps.MaxInline))
		}
		return q, list, caps, err
	}
	ops := uint64(1<<ibv.WRSend | 1<<ibv.WRSendImm)
	if init.Type != ibv.QPTypeUD {
		ops |= 1<<ibv.WRWrite | 1<<ibv.WRWriteImm
		if h.claims().Has(ci.CapMW2) {
			ops |= 1<<ibv.WRLocalInv | 1<<ibv.WRBindMW
		}
	}
	if init.Type == ibv.QPTypeRC {
		ops |= 1<<ibv.WRRead | 1<<ibv.WRCompareSwap | 1<<ibv.WRFetchAdd
		if h.claims().Has(ci.CapMW2) {
			ops |= 1 << ibv.WRSendInv
		}
	}
	q, caps, err = h.dev.CreateExtendedQP(pd, init, send, recv, srq, ops)
	if errors.Is(err, syscall.EOPNOTSUPP) { // Soft-RoCE's provider has no local invalidate on UC
		ops &^= 1 << ibv.WRLocalInv
		q, caps, err = h.dev.CreateExtendedQP(pd, init, send, recv, srq, ops)
	}
	if err != nil {
		return q, nil, caps, err
	}
	if list, err = h.dev.ExtendedSendList(q, ops, postBatch, int(caps.MaxSendSGE), int(caps.MaxInline)); err != nil {
		err = errors.Join(err, h.dev.DestroyQP(q))
	}
	return q, list, caps, err
}

// checkQP checks what the library does not see: values that do not fit its types, and what package ci alone has.
func (h *HCA) checkQP(verb string, c *ci.QPCreate) error {
	const flags = ci.QPSignalAll | ci.QPClientSyncSend | ci.QPClientSyncRecv | ci.QPNoOverflow
	_, hasService := services[c.Type]
	for _, n := range []int{c.SendDepth, c.RecvDepth} {
		if n < 0 || n > limit(h.attr.MaxQPWR) {
			return fail(verb, ci.InvalidMaxWRs, "want 0 to MaxWRs")
		}
	}
	for _, n := range []int{c.SendSGE, c.RecvSGE} {
		if n < 0 || n > limit(h.attr.MaxSGE) {
			return fail(verb, ci.InvalidMaxSGE, "want 0 to MaxSGEs")
		}
	}
	switch {
	case c.Type == ci.RD:
		return fail(verb, ci.Unsupported, c.Type.String())
	case !hasService:
		return fail(verb, ci.InvalidServiceType, "CreateSpecialQP creates special and raw QPs")
	case c.Type == ci.UC && !h.can.uc:
		return fail(verb, ci.Unsupported, c.Type.String())
	case c.User != nil:
		return fail(verb, ci.InvalidParameter, "private data, which this driver has no user library for")
	case c.Flags&^flags != 0:
		return fail(verb, ci.InvalidParameter, "unknown flag")
	case c.SRQ != nil && c.RecvDepth != 0:
		return fail(verb, ci.InvalidParameter, "RecvDepth with an SRQ: want 0")
	case c.SRQ != nil && h.attr.MaxSRQ == 0:
		return fail(verb, ci.InvalidSRQHandle, "the adapter has no SRQs")
	case !ci.IsNil(c.RDD):
		return fail(verb, ci.InvalidParameter, "RDD: only RD has one")
	case c.MaxInline < 0 || c.MaxInline > h.can.inline:
		most := h.most()
		return &ci.Error{Verb: verb, Status: ci.InvalidSetting, Detail: "MaxInline", Most: &most}
	}
	return nil
}

// most returns the largest sizes of a QP.
func (h *HCA) most() ci.QPCaps {
	wrs, sges := limit(h.attr.MaxQPWR), limit(h.attr.MaxSGE)
	return ci.QPCaps{SendDepth: wrs, RecvDepth: wrs, SendSGE: sges, RecvSGE: sges, MaxInline: h.can.inline}
}

// qpError returns the error of a CreateQP that the provider rejected. Each size is in its own range, so EINVAL means
// that the device cannot grant them together.
func (h *HCA) qpError(verb string, err error, c *ci.QPCreate) error {
	if statusOf(err, ci.Success) != ci.InvalidParameter || c.SendDepth == 0 {
		return reject(verb, err, ci.Success)
	}
	most := h.most()
	return &ci.Error{Verb: verb, Status: ci.InvalidSetting, Detail: "the device does not grant these sizes together",
		Err: err, Most: &most}
}

// Num returns the QP number.
func (q *qp) Num() ci.QPN { return ci.QPN(q.num) }

// TimeWait does nothing: the kernel's driver decides when a number is used again.
func (q *qp) TimeWait(time.Duration) {}

// Destroy destroys the QP. Status: ResourceBusy (attached to a group), InvalidQPHandle. Context: drain.
func (q *qp) Destroy() error {
	const verb = "QP.Destroy"
	err := q.refs.DestroyIf(verb, ci.InvalidQPHandle, func() error {
		q.sq.mu.Lock()
		defer q.sq.mu.Unlock()
		q.rq.mu.Lock()
		defer q.rq.mu.Unlock()
		if err := q.hca.dev.DestroyQP(q.qp); err != nil {
			return reject(verb, err, ci.Success)
		}
		q.sq.dead, q.rq.dead = true, true
		return nil
	})
	if err != nil {
		return err
	}
	q.sq.log.reset()
	q.send.drop(q)
	q.recv.drop(q)
	h := q.hca
	h.mu.Lock()
	if h.qp[q.qp.Ptr()] == q {
		delete(h.qp, q.qp.Ptr())
	}
	h.mu.Unlock()
	q.notify.Close()
	h.qps.Give()
	driver.PutAll(q.uses)
	return nil
}

// states are the states in the order of ibv_qp_state.
var states = [...]ci.QPState{ci.QPReset, ci.QPInit, ci.QPRTR, ci.QPRTS, ci.QPSQD, ci.QPSQError, ci.QPError}

// stateOf returns a state of the library.
func stateOf(s int32, draining bool) ci.QPState {
	if s < 0 || int(s) >= len(states) {
		return ci.QPError
	}
	if states[s] == ci.QPSQD && draining {
		return ci.QPSQDraining
	}
	return states[s]
}

// fromState is the reverse of stateOf.
func fromState(s ci.QPState) (int32, bool) {
	for i, x := range states {
		if x == s {
			return int32(i), true
		}
	}
	return 0, false
}

// Query returns the attributes. Status: InvalidQPHandle, or that of the provider's error.
func (q *qp) Query() (ci.QPAttr, error) {
	const verb = "QP.Query"
	q.modify.Lock()
	defer q.modify.Unlock()
	if !q.refs.Use() {
		return ci.QPAttr{}, fail(verb, ci.InvalidQPHandle, "")
	}
	defer q.refs.Done()
	v, err := q.hca.dev.QueryQP(q.qp)
	if err != nil {
		return ci.QPAttr{}, reject(verb, err, ci.Success)
	}
	c := &q.create
	a := ci.QPAttr{QPCaps: q.granted, Type: c.Type, Flags: c.Flags, State: stateOf(v.State, v.SQDraining != 0),
		Num: ci.QPN(q.num), DestNum: ci.QPN(v.DestQPNum), Port: v.PortNum, Access: fromAccess(v.Access),
		QKey: ci.QKey(v.QKey), SQPSN: ci.PSN(v.SQPSN), RQPSN: ci.PSN(v.RQPSN), MTU: ci.MTU(v.PathMTU),
		InitDepth: v.MaxRdAtomic, RespRes: v.MaxDestRdAtomic, RetryCount: v.RetryCnt, RNRRetry: v.RNRRetry,
		MinRNRTimer: v.MinRNR, APM: ci.APMState(v.PathMigState + 1), SQDEvent: v.EnSQDAsyncNotify != 0,
		Primary:   ci.Path{AV: fromAddress(&v.AH), PKeyIndex: v.PKeyIndex, AckTimeout: ci.TimeExp(v.Timeout)},
		Alternate: ci.Path{AV: fromAddress(&v.AltAH), PKeyIndex: v.AltPKeyIndex, AckTimeout: ci.TimeExp(v.AltTimeout)},
		PD:        q.pd, SendCQ: c.SendCQ, RecvCQ: c.RecvCQ, SRQ: c.SRQ}
	a.CurrentState = a.State
	return a, nil
}
