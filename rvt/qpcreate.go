package rvt

import (
	"time"

	"ciddk/ci"
	"ciddk/wire"
)

// CreateQP makes a queue pair in Reset.
func (d *PD) CreateQP(c ci.QPCreate) (ci.QP, error) {
	const verb = "PD.CreateQP"
	caps := d.ca.hca.attr.Caps
	switch {
	case c.Type == ci.RD && !caps.Has(ci.CapRD), c.Type == ci.UC && !caps.Has(ci.CapUC), c.Type == ci.UD && !caps.Has(ci.CapUD):
		return nil, failf(verb, ci.Unsupported, c.Type.String())
	case c.Type != ci.RC && c.Type != ci.UC && c.Type != ci.UD:
		return nil, failf(verb, ci.InvalidServiceType, "special and raw QPs come from CreateSpecialQP")
	}
	if err := d.checkCaps(verb, &c, false); err != nil {
		return nil, err
	}
	q, err := d.newQP(verb, c)
	if err != nil {
		return nil, err
	}
	return q, nil
}

// CreateSpecialQP makes QP0 or QP1 of a port.
func (d *PD) CreateSpecialQP(num uint8, c ci.QPCreate) (ci.QP, error) {
	const verb = "PD.CreateSpecialQP"
	h := d.ca.hca
	switch c.Type {
	case ci.QP0, ci.QP1:
		if !h.attr.Caps.Has(ci.CapSpecialQP) {
			return d.UnimplementedPD.CreateSpecialQP(num, c)
		}
	case ci.RawIPv6, ci.RawEther:
		return nil, failf(verb, ci.Unsupported, c.Type.String())
	default:
		return nil, failf(verb, ci.InvalidServiceType, c.Type.String())
	}
	if c.User != nil {
		return nil, failf(verb, ci.InvalidParameter, "a special QP has no user half: User must be nil")
	}
	port := h.port(num)
	if port == nil {
		return nil, h.noPort(verb, num)
	}
	if c.Type == ci.QP0 && port.attr.Load().Link != ci.LinkInfiniBand {
		return nil, failf(verb, ci.Unsupported, "an Ethernet port has no QP0") // annex A16, 16.4.2
	}
	if err := d.checkCaps(verb, &c, true); err != nil {
		return nil, err
	}
	slot := &port.special[c.Type-ci.QP0]
	if slot.Load() != nil {
		return nil, fail(verb, ci.ResourceBusy)
	}
	q, err := d.newQP(verb, c)
	if err != nil {
		return nil, err
	}
	q.attr.Port = num
	if !slot.CompareAndSwap(nil, q) {
		_ = q.Destroy() // nothing can refer to it yet
		return nil, fail(verb, ci.ResourceBusy)
	}
	return q, nil
}

// checkCaps holds the sizes asked against the limits. A special QP is answered with what would be granted; so is too much inline data.
func (d *PD) checkCaps(verb string, c *ci.QPCreate, clamp bool) error {
	a := &d.ca.hca.attr
	const flags = ci.SignalAll | ci.ClientSyncSend | ci.ClientSyncRecv | ci.NoOverflow
	switch {
	case c.Flags&^flags != 0:
		return failf(verb, ci.InvalidParameter, "unknown flag")
	case c.RDD != nil:
		return failf(verb, ci.InvalidParameter, "an RDD belongs to an RD QP")
	case c.SRQ != nil && c.RecvDepth != 0:
		return failf(verb, ci.InvalidParameter, "RecvDepth must be 0 with an SRQ")
	case c.SendDepth < 0:
		return outside(verb, ci.InvalidMaxWRs, "SendDepth", c.SendDepth, 0, a.MaxWRs)
	case c.RecvDepth < 0:
		return outside(verb, ci.InvalidMaxWRs, "RecvDepth", c.RecvDepth, 0, a.MaxWRs)
	case c.SendSGE < 0:
		return outside(verb, ci.InvalidMaxSGE, "SendSGE", c.SendSGE, 0, a.MaxSGEs)
	case c.RecvSGE < 0:
		return outside(verb, ci.InvalidMaxSGE, "RecvSGE", c.RecvSGE, 0, a.MaxSGEs)
	case c.MaxInline < 0:
		return failf(verb, ci.InvalidParameter, "MaxInline is negative")
	}
	if clamp || c.MaxInline > a.MaxInline {
		most := ci.QPCaps{SendDepth: min(c.SendDepth, a.MaxWRs), RecvDepth: min(c.RecvDepth, a.MaxWRs),
			SendSGE: min(c.SendSGE, a.MaxSGEs), RecvSGE: min(c.RecvSGE, a.MaxSGEs), MaxInline: min(c.MaxInline, a.MaxInline)}
		if most != c.QPCaps {
			return &ci.Error{Verb: verb, Status: ci.InvalidSetting, Detail: "sizes beyond CAAttr; Most has what would be granted", Most: &most}
		}
	}
	switch {
	case c.SendDepth > a.MaxWRs:
		return outside(verb, ci.InvalidMaxWRs, "SendDepth", c.SendDepth, 0, a.MaxWRs)
	case c.RecvDepth > a.MaxWRs:
		return outside(verb, ci.InvalidMaxWRs, "RecvDepth", c.RecvDepth, 0, a.MaxWRs)
	case c.SendSGE > a.MaxSGEs:
		return outside(verb, ci.InvalidMaxSGE, "SendSGE", c.SendSGE, 0, a.MaxSGEs)
	case c.RecvSGE > a.MaxSGEs:
		return outside(verb, ci.InvalidMaxSGE, "RecvSGE", c.RecvSGE, 0, a.MaxSGEs)
	}
	return nil
}

// cqOf recovers a CQ of this HCA and takes a reference.
func (h *HCA) cqOf(c ci.CQ) *CQ {
	q, ok := ci.As[*CQ](c)
	if !ok || q.hca != h || !q.refs.get() {
		return nil
	}
	return q
}

func (d *PD) newQP(verb string, c ci.QPCreate) (_ *QP, err error) {
	h := d.ca.hca
	q := &QP{pd: d, ca: d.ca, hca: h, typ: c.Type, flags: c.Flags}
	q.notify = notifier{onEvent: c.OnEvent, ctx: c.Context}
	q.faces.send, q.faces.recv, q.faces.srq = c.SendCQ, c.RecvCQ, c.SRQ
	q.service = services[c.Type]
	q.timer.Fire = q.expire

	var undo []func()
	defer func() {
		if err != nil {
			for i := range undo {
				undo[len(undo)-1-i]()
			}
		}
	}()
	if q.sendCQ = h.cqOf(c.SendCQ); q.sendCQ == nil {
		return nil, handle(verb, ci.InvalidCQHandle, "SendCQ", c.SendCQ)
	}
	undo = append(undo, q.sendCQ.refs.put)
	if q.recvCQ = h.cqOf(c.RecvCQ); q.recvCQ == nil {
		return nil, handle(verb, ci.InvalidCQHandle, "RecvCQ", c.RecvCQ)
	}
	undo = append(undo, q.recvCQ.refs.put)
	if c.SRQ != nil {
		s, ok := ci.As[*SRQ](c.SRQ)
		if !ok || s.pd.ca.hca != h || !s.get() {
			return nil, handle(verb, ci.InvalidSRQHandle, "SRQ", c.SRQ)
		}
		q.srq, q.source = s, s
		undo = append(undo, s.put)
	}
	if err := d.child(verb, kindQP, h.attr.MaxQPs); err != nil {
		return nil, err
	}
	undo = append(undo, func() { d.unchild(kindQP) })
	q.caps = c.QPCaps
	bytes := qpBytes + h.sendBytes(c.SendDepth, c.SendSGE, c.MaxInline)
	if q.srq == nil {
		bytes += h.recvBytes(c.RecvDepth, c.RecvSGE)
	}
	if err := h.reserve(verb, "the QP", bytes); err != nil {
		return nil, err
	}
	q.bytes = bytes
	undo = append(undo, func() { h.queues.give(bytes) })
	depth := 0
	if s, ok := h.cfg.Rings.(RingSizes); ok && c.User == nil {
		q.sq, q.lateSQ = noSendRing{}, true
		depth, err = s.SendRingDepth(max(c.SendDepth, 1), c.SendSGE, c.MaxInline)
	} else if q.sq, err = h.cfg.Rings.SendRing(max(c.SendDepth, 1), c.SendSGE, c.MaxInline, c.User); err == nil {
		depth = q.sq.Depth()
	}
	if err != nil {
		return nil, failErr(verb, ci.InsufficientResources, err)
	}
	if c.SendDepth > 0 {
		q.caps.SendDepth = depth
	}
	if q.srq == nil {
		if q.rq, err = h.cfg.Rings.RecvRing(max(c.RecvDepth, 1), c.RecvSGE, c.User); err != nil {
			return nil, failErr(verb, ci.InsufficientResources, err)
		}
		q.source = q.rq
		q.takes, _ = q.rq.(RecvBatch)
		if c.RecvDepth > 0 {
			q.caps.RecvDepth = q.rq.Depth()
		}
	} else {
		q.caps.RecvSGE = q.srq.maxSGE
	}
	q.resp.rw.SGL = make([]ci.SGE, 0, q.caps.RecvSGE)
	q.attr = ci.QPAttr{State: ci.QPReset, APM: ci.APMMigrated, Port: 1}
	switch c.Type {
	case ci.QP0, ci.QP1:
		q.num = ci.QPN(c.Type - ci.QP0)
	default:
		if err := h.number(verb, q, c); err != nil {
			return nil, err
		}
	}
	q.attr.Num = q.num
	return q, nil
}

var services = [...]wire.Service{ci.RC: wire.RC, ci.UC: wire.UC, ci.RD: wire.RD, ci.UD: wire.UD, ci.QP0: wire.UD, ci.QP1: wire.UD,
	ci.RawIPv6: wire.UD, ci.RawEther: wire.UD}

const mcastQPN = 0xffffff

// number finds a number for q and makes it known.
func (h *HCA) number(verb string, q *QP, c ci.QPCreate) error {
	if f := h.cfg.Ops.QPN; f != nil {
		n, err := f(c)
		if err != nil {
			return failErr(verb, ci.StatusOf(err), err)
		}
		q.num = n
		if n < 2 || n >= mcastQPN || !h.qps.put(uint32(n), q) {
			return failf(verb, ci.ResourceBusy, "QP number")
		}
		return nil
	}
	for range 1 << 20 {
		n := h.rand.uint32() & psnMask
		if n < 2 || n == mcastQPN || h.retired.holds(ci.QPN(n), h.clock.Now()) {
			continue
		}
		q.num = ci.QPN(n)
		if h.qps.put(n, q) {
			return nil
		}
	}
	return failf(verb, ci.InsufficientResources, "no free QP number")
}

// Num is the QP's number.
func (q *QP) Num() ci.QPN { return q.num }

// TimeWait sets for how long from now the number may not be issued again. Without it, a number may return at once, one chance in 2^24.
func (q *QP) TimeWait(d time.Duration) {
	until := int64(0)
	if d > 0 {
		until = int64(q.hca.clock.Now() + d)
	}
	q.timeWait.Store(until)
}

// Destroy frees the QP.
func (q *QP) Destroy() error {
	if err := q.kill("QP.Destroy", ci.InvalidQPHandle); err != nil {
		return err
	}
	q.gone.Store(true)
	if until := q.timeWait.Load(); until != 0 && q.typ != ci.QP0 && q.typ != ci.QP1 {
		q.hca.retired.add(q.num, q.hca.clock.Now(), time.Duration(until))
	}
	if q.num < 2 {
		for _, p := range q.hca.ports {
			p.special[q.num].CompareAndSwap(q, nil)
		}
	} else {
		q.hca.qps.del(uint32(q.num), q)
	}
	q.sqMu.Lock() // posts in progress end before the queues do
	q.rqMu.Lock()
	q.mu.Lock()
	q.toReset()
	q.releaseQueues()
	q.mu.Unlock()
	q.rqMu.Unlock()
	q.sqMu.Unlock()
	q.hca.wheel.Cancel(&q.timer)
	q.notify.close()
	q.sendCQ.refs.put()
	q.recvCQ.refs.put()
	if q.srq != nil {
		q.srq.put()
	}
	q.pd.unchild(kindQP)
	return nil
}

// makeSendRing makes the send ring of a QP that newQP made without one, and whose memory is counted. The caller holds the token, and stores a
// state in which posts are taken afterwards: a poster that sees the state sees the ring.
func (q *QP) makeSendRing() {
	q.lateSQ = false
	if sq, err := q.hca.cfg.Rings.SendRing(max(q.caps.SendDepth, 1), q.caps.SendSGE, q.caps.MaxInline, nil); err == nil { // else posts find it full
		q.sq = sq
	}
}

// releaseQueues frees the memory of the queues, which a reference to the destroyed QP does not keep. The caller holds the token and
// the locks of both queues.
func (q *QP) releaseQueues() {
	q.sq, q.lateSQ, q.takes, q.source = noSendRing{}, false, nil, noRecvRing{}
	if q.rq != nil {
		q.rq = noRecvRing{}
	}
	q.resp.rw.SGL, q.bind = nil, nil
	q.hca.queues.give(q.bytes)
	q.bytes = 0
}

// Query gives the attributes.
func (q *QP) Query() (ci.QPAttr, error) {
	if q.gone.Load() {
		return ci.QPAttr{}, fail("QP.Query", ci.InvalidQPHandle)
	}
	q.mu.Lock()
	a := q.attr
	a.SQPSN, a.RQPSN = q.queryPSNs()
	q.unlock()
	a.QPCaps, a.Type, a.Flags, a.Num, a.CurrentState = q.caps, q.typ, q.flags, q.num, a.State
	a.PD, a.SendCQ, a.RecvCQ, a.SRQ = q.pd, q.faces.send, q.faces.recv, q.faces.srq
	return a, nil
}
