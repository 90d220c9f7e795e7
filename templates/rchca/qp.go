package rchca

import (
	"sync"
	"time"

	"ciddk/ci"
)

type qp struct {
	ci.UnimplementedQP
	refs
	pd         *pd
	hca        *HCA
	send, recv *cq
	create     ci.QPCreate
	num        ci.QPN
	notify     *notifier

	modify sync.Mutex
	attr   ci.QPAttr // as last set; its State may be behind the hardware's
	sq, rq ring
}

// ring is the driver's side of a work queue: which ids stand in its slots, and how many are free.
type ring struct {
	post  sync.Mutex // held by the poster; taken before mu
	mu    sync.Mutex
	ids   []uint64
	state ci.QPState // for judging a post
	head  int        // next slot to write
	used  int
}

// free returns the number of free slots. A completion may free more meanwhile.
func (r *ring) free() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ids) - r.used
}

// take marks the next slot as used.
func (r *ring) take(id uint64) (slot int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	slot = r.head
	r.ids[slot] = id
	r.head = (slot + 1) % len(r.ids)
	r.used++
	return slot
}

// done frees everything up to slot, since queues complete in order, and gives its id.
func (r *ring) done(slot int) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	left := r.head - slot - 1 // slots behind it
	if left < 0 {
		left += len(r.ids)
	}
	r.used = min(r.used, left)
	return r.ids[slot]
}

// clear forgets all attributes and work: Reset.
func (q *qp) clear() {
	c := &q.create
	q.attr = ci.QPAttr{QPCaps: c.QPCaps, Type: c.Type, Flags: c.Flags, Num: q.num, PD: q.pd, SendCQ: c.SendCQ, RecvCQ: c.RecvCQ}
	for _, r := range []*ring{&q.sq, &q.rq} {
		r.mu.Lock()
		r.state, r.head, r.used = ci.QPReset, 0, 0
		r.mu.Unlock()
	}
}

// Num is constant.
func (q *qp) Num() ci.QPN { return q.num }

// TimeWait: this hardware's numbers come round after all others, which is longer than any wait.
func (q *qp) TimeWait(time.Duration) {}

// Destroy: Status: InvalidQPHandle. Context: drain.
func (q *qp) Destroy() error {
	const verb = "QP.Destroy"
	if err := q.kill(verb, ci.InvalidQPHandle); err != nil {
		return err
	}
	q.stopPosts()
	err := q.hca.dev.DestroyQP(q.num)
	q.letPost() // a callback may be waiting to post, in vain
	if err != nil {
		return broken(verb, err)
	}
	q.send.save()
	q.recv.save()
	q.hca.mu.Lock()
	delete(q.hca.qp, q.num)
	q.hca.mu.Unlock()
	q.notify.close()
	q.hca.qps.give()
	q.recv.put()
	q.send.put()
	q.pd.put()
	return nil
}

// stopPosts waits for posts under way; letPost lets the next begin.
func (q *qp) stopPosts() { q.sq.post.Lock(); q.rq.post.Lock() }
func (q *qp) letPost()   { q.rq.post.Unlock(); q.sq.post.Unlock() }

// Query: Status: InvalidQPHandle.
func (q *qp) Query() (ci.QPAttr, error) {
	q.modify.Lock()
	defer q.modify.Unlock()
	if !q.alive() {
		return ci.QPAttr{}, fail("QP.Query", ci.InvalidQPHandle, "")
	}
	a := q.attr
	a.State = q.hca.dev.QPState(q.num)
	return a, nil
}
