//go:build linux && (amd64 || arm64)

package verbs

import (
	"sync"

	"ciddk/ci"
	"ciddk/ci/driver"
	"ciddk/hca/verbs/internal/ibv"
)

type cq struct {
	ci.UnimplementedCQ
	refs   driver.Refs
	pd     *pd
	hca    *HCA
	cq     ibv.CQ
	notify driver.Notifier

	mu   sync.Mutex // of the fields below, and of the calls that the provider does not serialize with Destroy
	dead bool
	poll *ibv.Poller
	last *qp            // of the completion before
	qps  map[uint32]*qp // that use the queue, by number
	// gone has the contexts of QPs that were destroyed while their completions may wait in the queue. It is emptied
	// when the queue is found empty.
	gone map[uint32]any
}

// pollBatch is the number of completions that one call of the library returns.
const pollBatch = 64

// CreateCQ creates a CQ. Status: InvalidCQSize, InvalidParameter (vector, private data), InvalidPDHandle,
// InsufficientResources.
func (p *pd) CreateCQ(c ci.CQCreate) (ci.CQ, error) {
	const verb = "PD.CreateCQ"
	h := p.hca
	switch {
	case c.User != nil:
		return nil, fail(verb, ci.InvalidParameter, "private data, which this driver has no user library for")
	case c.Size < 1:
		return nil, fail(verb, ci.InvalidCQSize, "want 1 to MaxCQEs")
	case int(c.Affinity.Vector) > h.dev.Vectors():
		return nil, fail(verb, ci.InvalidParameter, "Affinity.Vector: the adapter has fewer vectors")
	}
	if c.Size > limit(h.attr.MaxCQE) {
		return nil, fail(verb, ci.InvalidCQSize, "want 1 to MaxCQEs")
	}
	if err := p.hold(verb, &h.cqs); err != nil {
		return nil, err
	}
	q := &cq{pd: p, hca: h, qps: map[uint32]*qp{}, gone: map[uint32]any{},
		notify: driver.Notifier{OnCompletion: c.OnCompletion, OnEvent: c.OnEvent, Context: c.Context}}
	channel := h.channel
	if c.OnCompletion == nil {
		channel = ibv.Channel{}
	}
	vector := max(int(c.Affinity.Vector)-1, 0)
	create, poller := h.dev.CreateCQ, h.dev.Poller
	if h.extended {
		create, poller = h.dev.CreateExtendedCQ, h.dev.ExtendedPoller
	}
	var err error
	if q.cq, err = create(c.Size, channel, vector); err != nil {
		p.release(&h.cqs)
		return nil, reject(verb, err, ci.InvalidCQSize)
	}
	q.poll = poller(q.cq, pollBatch)
	h.mu.Lock()
	h.cq[q.cq.Ptr()] = q
	h.mu.Unlock()
	return q, nil
}

// Destroy destroys the queue. Status: ResourceBusy (a QP uses it), InvalidCQHandle. Context: drain.
func (q *cq) Destroy() error {
	const verb = "CQ.Destroy"
	err := q.refs.DestroyIf(verb, ci.InvalidCQHandle, func() error {
		q.mu.Lock()
		defer q.mu.Unlock()
		if err := q.hca.dev.DestroyCQ(q.cq); err != nil {
			return reject(verb, err, ci.Success)
		}
		q.dead = true
		return nil
	})
	if err != nil {
		return err
	}
	h := q.hca
	h.mu.Lock()
	if h.cq[q.cq.Ptr()] == q { // the library may have used the address again
		delete(h.cq, q.cq.Ptr())
	}
	h.mu.Unlock()
	q.notify.Close()
	q.pd.release(&h.cqs)
	return nil
}

var errNoCQ = map[string]*ci.Error{
	"CQ.Poll":   {Verb: "CQ.Poll", Status: ci.InvalidCQHandle},
	"CQ.Notify": {Verb: "CQ.Notify", Status: ci.InvalidCQHandle},
}

// Poll returns completions. Status: InvalidCQHandle, or that of the provider's error.
func (q *cq) Poll(wc []ci.WC) (n int, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.dead {
		return 0, errNoCQ["CQ.Poll"]
	}
	for n < len(wc) {
		want := min(len(wc)-n, pollBatch)
		list, err := q.poll.Poll(want)
		if err != nil {
			if n > 0 {
				return n, nil // the next poll reports it
			}
			return 0, reject("CQ.Poll", err, ci.Success)
		}
		for i := range list {
			q.convert(&wc[n], &list[i])
			n++
		}
		if len(list) < want {
			if len(q.gone) > 0 {
				clear(q.gone)
			}
			break
		}
	}
	return n, nil
}

// Notify arms a callback. Status: InvalidCQHandle, InvalidParameter.
func (q *cq) Notify(when ci.Notify) error {
	const verb = "CQ.Notify"
	if when > ci.NotifySolicited {
		return fail(verb, ci.InvalidParameter, "want NotifyNext or NotifySolicited")
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.dead {
		return errNoCQ[verb]
	}
	if err := q.hca.dev.NotifyCQ(q.cq, when == ci.NotifySolicited); err != nil {
		return reject(verb, err, ci.Success)
	}
	return nil
}

// Query returns the size. Status: InvalidCQHandle.
func (q *cq) Query() (ci.CQAttr, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.dead {
		return ci.CQAttr{}, fail("CQ.Query", ci.InvalidCQHandle, "")
	}
	return ci.CQAttr{Size: q.cq.Size()}, nil
}

// Resize changes the size. Status: InvalidCQSize, Overflow, Unsupported, InvalidParameter, InvalidCQHandle.
func (q *cq) Resize(r ci.CQResize) (int, error) {
	const verb = "CQ.Resize"
	switch {
	case !q.hca.can.resize:
		return q.UnimplementedCQ.Resize(r)
	case r.User != nil:
		return 0, fail(verb, ci.InvalidParameter, "private data, which this driver has no user library for")
	case r.Size < 1 || r.Size > limit(q.hca.attr.MaxCQE):
		return 0, fail(verb, ci.InvalidCQSize, "want 1 to MaxCQEs")
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.dead {
		return 0, fail(verb, ci.InvalidCQHandle, "")
	}
	if err := q.hca.dev.ResizeCQ(q.cq, r.Size); err != nil {
		// The size is in range, so EINVAL means that more entries wait than fit.
		return 0, reject(verb, err, ci.Overflow)
	}
	return q.cq.Size(), nil
}

// use adds a QP to the queue.
func (q *cq) use(x *qp) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.qps[x.num] = x
	delete(q.gone, x.num)
}

// drop removes a QP that was destroyed. Its completions may still wait in the queue.
func (q *cq) drop(x *qp) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.qps[x.num] == x {
		delete(q.qps, x.num)
		q.gone[x.num] = x.context
	}
	if q.last == x {
		q.last = nil
	}
}

// contextOf returns the context of the QP of a completion. The caller holds q.mu.
func (q *cq) contextOf(num uint32) any {
	if q.last == nil || q.last.num != num {
		if q.last = q.qps[num]; q.last == nil {
			return q.gone[num]
		}
	}
	return q.last.context
}

// The completion statuses, in the order of ibv_wc_status.
var wcStatuses = [...]ci.WCStatus{
	ci.WCSuccess, ci.WCLocalLenErr, ci.WCLocalOpErr, ci.WCLocalOpErr, ci.WCLocalProtErr, ci.WCFlushErr, ci.WCBindErr,
	ci.WCBadRespErr, ci.WCLocalAccessErr, ci.WCRemInvalidReqErr, ci.WCRemAccessErr, ci.WCRemOpErr,
	ci.WCTimeoutRetryErr, ci.WCRNRRetryErr, ci.WCGeneralErr, ci.WCRemInvalidReqErr, ci.WCRemAbortErr,
}

// The operations of completions, in the order of ibv_wc_opcode.
var wcOps = [...]ci.WCOp{ci.WCSend, ci.WCWrite, ci.WCRead, ci.WCCompareSwap, ci.WCFetchAdd, ci.WCBindMW,
	ci.WCLocalInv, ci.WCLSO}

// The opcodes of receives.
const (
	opRecv      = 1 << 7
	opRecvWrite = opRecv + 1
)

// convert sets a completion.
func (q *cq) convert(to *ci.WC, from *ibv.WC) {
	*to = ci.WC{ID: from.ID, QPN: ci.QPN(from.QPNum), Context: q.contextOf(from.QPNum), VendorErr: from.VendorErr}
	if q.last != nil && q.last.sq.log.isOn.Load() && q.last.num == from.QPNum && q.last.send == q &&
		(from.Status != 0 || from.Opcode&opRecv == 0) {
		q.last.sq.log.done(from.ID, from.Status != 0)
	}
	if from.Status != 0 {
		to.Status = ci.WCGeneralErr
		if s := int(from.Status); s > 0 && s < len(wcStatuses) {
			to.Status = wcStatuses[s]
		}
		return
	}
	switch {
	case from.Opcode == opRecv:
		to.Op = ci.WCRecv
	case from.Opcode == opRecvWrite:
		to.Op = ci.WCRecvWrite
	case from.Opcode >= 0 && int(from.Opcode) < len(wcOps):
		to.Op = wcOps[from.Opcode]
	}
	to.Length, to.SrcQP = from.ByteLen, ci.QPN(from.SrcQP)
	to.SLID, to.PathBits = ci.LID(from.SLID), from.DLIDPathBits
	to.SL, to.PKeyIndex = ci.SL(from.SL), from.PKeyIndex
	if !to.Op.IsRecv() {
		return
	}
	// Linux sets the flag on receives of connections, too, whose buffers have no GRH.
	if from.Flags&ibv.WCGRH != 0 && (q.last == nil || q.last.create.Type == ci.UD) {
		to.Flags |= ci.WCGRH
	}
	if from.Flags&ibv.WCChecksumOK != 0 {
		to.Flags |= ci.WCChecksumOK
	}
	switch {
	case from.Flags&ibv.WCWithImm != 0:
		to.Flags |= ci.WCImmediate
		to.Imm = from.Immediate()
	case from.Flags&ibv.WCWithInv != 0:
		to.Flags |= ci.WCInvalidated
		to.Imm = from.Invalidated()
	}
}
