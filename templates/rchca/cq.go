package rchca

import (
	"sync"

	"ciddk/ci"
)

type cq struct {
	ci.UnimplementedCQ
	refs
	pd     *pd
	hca    *HCA
	num    CQN
	size   int
	notify *notifier

	poll  sync.Mutex
	cqes  [64]CQE
	saved []ci.WC // entries of QPs that are gone or reset, read before their slots lost their meaning
}

// Made in advance: the data path does not allocate, even to refuse.
var errPoll, errNotify = fail("CQ.Poll", ci.InvalidCQHandle, ""), fail("CQ.Notify", ci.InvalidCQHandle, "")

// Destroy: Status: ResourceBusy while a QP uses the CQ, InvalidCQHandle. Context: drain.
func (q *cq) Destroy() error {
	const verb = "CQ.Destroy"
	if err := q.kill(verb, ci.InvalidCQHandle); err != nil {
		return err
	}
	if err := q.hca.dev.DestroyCQ(q.num); err != nil {
		return broken(verb, err)
	}
	q.hca.mu.Lock()
	delete(q.hca.cq, q.num)
	q.hca.mu.Unlock()
	q.notify.close()
	q.hca.cqs.give()
	q.pd.put()
	return nil
}

// Poll: Status: InvalidCQHandle. Context: data.
func (q *cq) Poll(wc []ci.WC) (n int, err error) {
	if !q.alive() {
		return 0, errPoll
	}
	q.poll.Lock()
	defer q.poll.Unlock()
	if len(q.saved) > 0 {
		n = copy(wc, q.saved)
		q.saved = q.saved[n:]
	}
	for n < len(wc) {
		k := q.hca.dev.ReadCQ(q.num, q.cqes[:min(len(wc)-n, len(q.cqes))])
		if k == 0 {
			break
		}
		for i := range k {
			q.hca.translate(&q.cqes[i], &wc[n])
			n++
		}
	}
	return n, nil
}

// translate makes a completion of an entry, and frees the slots it stands for.
func (h *HCA) translate(e *CQE, wc *ci.WC) {
	h.mu.RLock()
	q := h.qp[e.QPN]
	h.mu.RUnlock()
	*wc = ci.WC{QPN: e.QPN, Status: e.Status, Op: e.Op, Length: e.Length}
	if e.Immediate {
		wc.Flags, wc.Imm = ci.WCImmediate, e.Imm
	}
	if q == nil {
		return // a hardware bug: save has read what a dying QP had
	}
	wc.Context = q.create.Context
	r := &q.sq
	if e.Recv {
		r = &q.rq
	}
	wc.ID = r.done(e.Slot)
}

// save reads what the hardware has, before a QP's slots lose their meaning: entries outlive their QP.
func (q *cq) save() {
	q.poll.Lock()
	defer q.poll.Unlock()
	for {
		k := q.hca.dev.ReadCQ(q.num, q.cqes[:])
		if k == 0 {
			return
		}
		for i := range k {
			var wc ci.WC
			q.hca.translate(&q.cqes[i], &wc)
			q.saved = append(q.saved, wc)
		}
	}
}

// Notify: Status: InvalidCQHandle. Context: data.
func (q *cq) Notify(when ci.Notify) error {
	if !q.alive() {
		return errNotify
	}
	q.hca.dev.ArmCQ(q.num, when)
	return nil
}

// Query: Status: InvalidCQHandle.
func (q *cq) Query() (ci.CQAttr, error) {
	if !q.alive() {
		return ci.CQAttr{}, fail("CQ.Query", ci.InvalidCQHandle, "")
	}
	return ci.CQAttr{Size: q.size}, nil
}
