package rvt

import (
	"time"

	"ciddk/ci"
	"ciddk/ci/driver"
	"ciddk/ci/wrrules"
	"ciddk/wire"
)

// CreateQP creates a QP in Reset.
func (d *PD) CreateQP(c ci.QPCreate) (ci.QP, error) {
	const verb = "PD.CreateQP"
	caps := d.dev.attr.Caps
	switch {
	case c.Type == ci.RD && !caps.Has(ci.CapRD),
		c.Type == ci.UC && !caps.Has(ci.CapUC),
		c.Type == ci.UD && !caps.Has(ci.CapUD):
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

// CreateSpecialQP creates QP0 or QP1 of a port.
func (d *PD) CreateSpecialQP(num uint8, c ci.QPCreate) (ci.QP, error) {
	const verb = "PD.CreateSpecialQP"
	dev := d.dev
	switch c.Type {
	case ci.QP0, ci.QP1:
		if !dev.attr.Caps.Has(ci.CapSpecialQP) {
			return d.UnimplementedPD.CreateSpecialQP(num, c)
		}
	case ci.RawIPv6, ci.RawEther:
		return nil, failf(verb, ci.Unsupported, c.Type.String())
	default:
		return nil, failf(verb, ci.InvalidServiceType, c.Type.String())
	}
	if d.user != nil {
		return nil, failf(verb, ci.InvalidPermission, "the PD is that of a client process")
	}
	if c.User != nil {
		return nil, failf(verb, ci.InvalidParameter, "a special QP has no user library: User must be nil")
	}
	port := dev.port(num)
	if port == nil {
		return nil, dev.noPort(verb, num)
	}
	if c.Type == ci.QP0 && port.attr.Load().Link != ci.LinkInfiniBand {
		return nil, failf(verb, ci.Unsupported, "an Ethernet port has no QP0") // annex A16, 16.4.2
	}
	if err := d.checkCaps(verb, &c, true); err != nil {
		return nil, err
	}
	slot := dev.qps.special(num, ci.QPN(c.Type-ci.QP0))
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

// checkCaps validates the requested sizes. For a special QP, and for too much inline data, the error holds the sizes
// that would be granted.
func (d *PD) checkCaps(verb string, c *ci.QPCreate, clamp bool) error {
	a := &d.dev.attr
	const flags = ci.QPSignalAll | ci.QPClientSyncSend | ci.QPClientSyncRecv | ci.QPNoOverflow
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
		most := ci.QPCaps{
			SendDepth: min(c.SendDepth, a.MaxWRs),
			RecvDepth: min(c.RecvDepth, a.MaxWRs),
			SendSGE:   min(c.SendSGE, a.MaxSGEs),
			RecvSGE:   min(c.RecvSGE, a.MaxSGEs),
			MaxInline: min(c.MaxInline, a.MaxInline),
		}
		if most != c.QPCaps {
			return &ci.Error{Verb: verb, Status: ci.InvalidSetting, Most: &most,
				Detail: "sizes beyond CAAttr; Most has what would be granted"}
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

// cqOf returns the CQ behind c, with a reference, or nil. It is of this HCA, and of the process that d is of.
func (d *PD) cqOf(c ci.CQ) *CQ {
	q, ok := ci.As[*CQ](c)
	if !ok || q.dev != d.dev || q.pd.process != d.process || !q.refs.Get() {
		return nil
	}
	return q
}

func (d *PD) newQP(verb string, c ci.QPCreate) (_ *QP, err error) {
	dev := d.dev
	q := &QP{}
	q.dev, q.pd = dev, d
	q.typ, q.flags = c.Type, c.Flags
	q.wait.owner = q
	q.req.endpoint, q.req.host = &q.endpoint, q
	q.resp.endpoint, q.resp.host = &q.endpoint, q
	q.notify = driver.Notifier{OnEvent: c.OnEvent, Context: c.Context}
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
	if q.sendCQ = d.cqOf(c.SendCQ); q.sendCQ == nil {
		return nil, handle(verb, ci.InvalidCQHandle, "SendCQ", c.SendCQ)
	}
	undo = append(undo, q.sendCQ.refs.Put)
	if q.recvCQ = d.cqOf(c.RecvCQ); q.recvCQ == nil {
		return nil, handle(verb, ci.InvalidCQHandle, "RecvCQ", c.RecvCQ)
	}
	undo = append(undo, q.recvCQ.refs.Put)
	if c.SRQ != nil {
		s, ok := ci.As[*SRQ](c.SRQ)
		if !ok || s.pd.dev != dev || s.pd.process != d.process || !s.refs.Get() {
			return nil, handle(verb, ci.InvalidSRQHandle, "SRQ", c.SRQ)
		}
		q.srq, q.source = s, s
		undo = append(undo, s.refs.Put)
	}
	if err := d.child(verb, kindQP, dev.attr.MaxQPs); err != nil {
		return nil, err
	}
	undo = append(undo, func() { d.unchild(kindQP) })
	q.caps = c.QPCaps
	bytes := dev.qpBytes() + dev.sendBytes(c.SendDepth, c.SendSGE, c.MaxInline)
	if q.srq == nil {
		bytes += dev.recvBytes(c.RecvDepth, c.RecvSGE)
	}
	if err := dev.reserve(verb, "the QP", bytes); err != nil {
		return nil, err
	}
	q.bytes = bytes
	undo = append(undo, func() { dev.queues.give(bytes) })
	depth := 0
	rings := d.rings()
	if s, ok := rings.(RingSizes); ok && c.User == nil {
		q.sq, q.lateSQ = noSendRing{}, true
		depth, err = s.SendRingDepth(c.SendDepth, c.SendSGE, c.MaxInline)
	} else if q.sq, err = rings.SendRing(c.SendDepth, c.SendSGE, c.MaxInline, c.User); err == nil {
		depth = q.sq.Depth()
	}
	if err != nil {
		return nil, failErr(verb, ci.InsufficientResources, err)
	}
	q.states, _ = q.sq.(SharedSendRing)
	undo = append(undo, func() { freeRing(q.sq) })
	q.caps.SendDepth = depth
	if q.srq == nil {
		if q.rq, err = rings.RecvRing(c.RecvDepth, c.RecvSGE, c.User); err != nil {
			return nil, failErr(verb, ci.InsufficientResources, err)
		}
		undo = append(undo, func() { freeRing(q.rq) })
		q.source = q.rq
		q.takes, _ = q.rq.(RecvBatch)
		q.caps.RecvDepth = q.rq.Depth()
	} else {
		q.caps.RecvSGE = q.srq.maxSGE
	}
	a := &dev.attr
	q.rules = wrrules.Rules{Type: c.Type, Atomicity: a.Atomicity, Caps: a.Caps, MaxReadSGEs: a.MaxReadSGEs,
		SendSGE: q.caps.SendSGE, MaxInline: q.caps.MaxInline}
	q.resp.rw.SGL = make([]ci.SGE, 0, q.caps.RecvSGE)
	q.attr = ci.QPAttr{State: ci.QPReset, APM: ci.APMMigrated, Port: 1}
	switch c.Type {
	case ci.QP0, ci.QP1:
		q.num = ci.QPN(c.Type - ci.QP0)
	default:
		if err := dev.number(verb, q, c); err != nil {
			return nil, err
		}
	}
	q.attr.Num = q.num
	if d.user == nil {
		nothingForUser(c.User)
		return q, nil
	}
	if err = d.user.AddQP(q.num, q.sq, q.rq, q.Kick, c.User); err != nil {
		dev.qps.remove(q)
		return nil, failErr(verb, ci.InsufficientResources, err)
	}
	return q, nil
}

var services = [...]wire.Service{
	ci.RC: wire.RC, ci.UC: wire.UC, ci.RD: wire.RD, ci.UD: wire.UD, ci.QP0: wire.UD, ci.QP1: wire.UD,
	ci.RawIPv6: wire.UD, ci.RawEther: wire.UD,
}

// Num returns the QP number.
func (q *QP) Num() ci.QPN { return q.num }

// TimeWait quarantines the QP number for d from now: it is not issued again before. Without TimeWait, a new QP gets the
// number with a probability of one in 2^24.
func (q *QP) TimeWait(d time.Duration) {
	until := int64(0)
	if d > 0 {
		until = int64(q.dev.clock.Elapsed() + d)
	}
	q.timeWait.Store(until)
}

// Destroy frees the QP.
func (q *QP) Destroy() error {
	q.pd.process.settle()
	if err := q.refs.BeginDestroy("QP.Destroy", ci.InvalidQPHandle); err != nil {
		return err
	}
	q.destroyed.Store(true)
	if until := q.timeWait.Load(); until != 0 && q.typ != ci.QP0 && q.typ != ci.QP1 {
		q.dev.qps.retired.add(q.num, q.dev.clock.Elapsed(), time.Duration(until))
	}
	q.dev.qps.remove(q)
	q.sqMu.Lock() // posts in progress end before the queues do
	q.rqMu.Lock()
	q.mu.Lock()
	q.toReset()
	q.setRest(false)
	q.releaseQueues()
	q.mu.Unlock()
	q.rqMu.Unlock()
	q.sqMu.Unlock()
	q.dev.wheel.Cancel(&q.timer)
	q.notify.Close()
	q.sendCQ.refs.Put()
	q.recvCQ.refs.Put()
	if q.srq != nil {
		q.srq.refs.Put()
	}
	q.pd.unchild(kindQP)
	return nil
}

// releaseQueues frees the memory of the queues, so that a reference to the destroyed QP does not keep it. The caller
// holds the token and the locks of both queues.
func (q *QP) releaseQueues() {
	freeRing(q.sq)
	q.sq, q.lateSQ, q.states = noSendRing{}, false, nil
	q.takes, q.source = nil, noRecvRing{}
	if q.rq != nil {
		freeRing(q.rq)
		q.rq = noRecvRing{}
	}
	q.resp.rw.SGL, q.bind = nil, nil
	q.dev.queues.give(q.bytes)
	q.bytes = 0
}

// Query returns the attributes.
func (q *QP) Query() (ci.QPAttr, error) {
	if q.destroyed.Load() {
		return ci.QPAttr{}, fail("QP.Query", ci.InvalidQPHandle)
	}
	q.pd.process.settle()
	q.mu.Lock()
	a := q.attr
	a.SQPSN, a.RQPSN = q.queryPSNs()
	q.unlock()
	a.QPCaps, a.Type, a.Flags = q.caps, q.typ, q.flags
	a.Num, a.CurrentState = q.num, a.State
	a.PD, a.SendCQ = q.pd, q.faces.send
	a.RecvCQ, a.SRQ = q.faces.recv, q.faces.srq
	return a, nil
}

// queryPSNs returns the PSNs for Query.
func (q *QP) queryPSNs() (sq, rq ci.PSN) {
	if q.service == wire.UD {
		return q.attr.SQPSN, q.attr.RQPSN
	}
	return q.req.newPSN, q.resp.psn
}
