package rchca

import (
	"sync"

	"ciddk/ci"
	"ciddk/ci/driver"
)

type cq struct {
	ci.UnimplementedCQ
	refs   driver.Refs
	pd     *pd
	hca    *HCA
	num    CQN
	size   int
	notify driver.Notifier

	poll  sync.Mutex
	cqes  [64]CQE
	saved []ci.WC // completions of QPs that were destroyed or reset

	user *userCompletions // user.go
}

// These errors are created in advance, because the data path must not allocate, even for an error.
var errWhen = fail("CQ.Notify", ci.InvalidParameter, "unknown condition")

var errPoll, errNotify = fail("CQ.Poll", ci.InvalidCQHandle, ""), fail("CQ.Notify", ci.InvalidCQHandle, "")

// Destroy destroys the CQ. Status: ResourceBusy (a QP uses it), InvalidCQHandle, Timeout. Context: drain.
func (q *cq) Destroy() error {
	const verb = "CQ.Destroy"
	if err := q.refs.BeginDestroy(verb, ci.InvalidCQHandle); err != nil {
		return err
	}
	if err := q.hca.dev.DestroyCQ(q.num); err != nil {
		return commandError(verb, err)
	}
	q.hca.mu.Lock()
	delete(q.hca.cq, q.num)
	q.hca.mu.Unlock()
	if q.user != nil { // user.go
		q.closeUser()
	}
	q.notify.Close()
	q.hca.cqs.Give()
	q.pd.refs.Put()
	return nil
}

// Poll returns completions, oldest first. Status: InvalidCQHandle. Context: data.
func (q *cq) Poll(wc []ci.WC) (n int, err error) {
	if !q.refs.Alive() {
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

// translate converts an entry to a completion, and frees the slots of the requests that it completes.
func (h *HCA) translate(e *CQE, wc *ci.WC) {
	h.mu.RLock()
	q := h.qp[e.QPN]
	h.mu.RUnlock()
	*wc = ci.WC{QPN: e.QPN, Status: e.Status, Op: e.Op, Length: e.Length}
	if e.Immediate {
		wc.Flags, wc.Imm = ci.WCImmediate, e.Imm
	}
	e.complete(wc) // ud.go
	if q == nil {
		return // a defect of the hardware: save has read all entries of a destroyed QP
	}
	wc.Context = q.create.Context
	r := &q.sq
	if e.Recv {
		r = &q.rq
	}
	if e.Recv && q.srq != nil { // srq.go
		wc.ID = q.srq.done(e.Slot)
		return
	}
	wc.ID = r.done(e.Slot)
}

// save reads all entries from the hardware. QP.Destroy and the transition to Reset call it, because completions remain
// valid without their QP, and entries can be translated only while the QP has its slots.
func (q *cq) save() {
	if q.user != nil { // user.go
		return // deliver has translated them
	}
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

// Notify arms the CQ. Status: InvalidCQHandle, InvalidParameter (an unknown condition). Context: data.
func (q *cq) Notify(when ci.Notify) error {
	if !q.refs.Alive() {
		return errNotify
	}
	if when > ci.NotifySolicited {
		return errWhen
	}
	if q.user != nil { // user.go
		q.armUser(when)
		return nil
	}
	q.hca.dev.ArmCQ(q.num, when)
	return nil
}

// Query returns the attributes of the CQ. Status: InvalidCQHandle.
func (q *cq) Query() (ci.CQAttr, error) {
	if !q.refs.Alive() {
		return ci.CQAttr{}, fail("CQ.Query", ci.InvalidCQHandle, "")
	}
	return ci.CQAttr{Size: q.size}, nil
}
