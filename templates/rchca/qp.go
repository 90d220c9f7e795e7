package rchca

import (
	"sync"
	"sync/atomic" // user.go
	"time"

	"ciddk/ci"
	"ciddk/ci/driver"
	"ciddk/ci/wrrules"
)

type qp struct {
	ci.UnimplementedQP
	refs       driver.Refs
	pd         *pd
	hca        *HCA
	send, recv *cq
	uses       []*driver.Refs // that the QP depends on
	create     ci.QPCreate
	num        ci.QPN
	notify     driver.Notifier

	modify sync.Mutex
	attr   ci.QPAttr // as set last; the hardware may be in another state
	sq, rq ring
	rules  wrrules.Rules // of requests to the send queue

	to     ci.AVAttr // ud.go
	srq    *srq      // srq.go
	bind   Bind      // mw.go
	bindWR ci.SendWR // mw.go
	user   *userSend // user.go
}

// A ring is the driver's side of a work queue: the work request IDs in its slots, and the number of used slots.
type ring struct {
	post      sync.Mutex // held while a goroutine posts; taken before mu
	mu        sync.Mutex
	ids       []uint64
	state     ci.QPState // that a post checks
	head      int        // next slot to write
	used      int
	completed *atomic.Uint32 // user.go
}

// free returns the number of free slots. A completion may free more at the same time.
func (r *ring) free() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ids) - r.used
}

// take allocates the next slot.
func (r *ring) take(id uint64) (slot int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	slot = r.head
	r.ids[slot] = id
	r.head = (slot + 1) % len(r.ids)
	r.used++
	return slot
}

// enter sets the state that a post checks.
func (r *ring) enter(s ci.QPState) {
	r.mu.Lock()
	r.state = s
	r.mu.Unlock()
}

// done frees all slots up to slot, because queues complete in order. It returns the work request ID of slot.
func (r *ring) done(slot int) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	left := r.head - slot - 1 // slots after it
	if left < 0 {
		left += len(r.ids)
	}
	freed := r.used - min(r.used, left)
	r.used -= freed
	if r.completed != nil { // user.go
		r.completed.Add(uint32(freed))
	}
	return r.ids[slot]
}

// clear removes all attributes and requests, for the transition to Reset.
func (q *qp) clear() {
	c := &q.create
	q.attr = ci.QPAttr{QPCaps: c.QPCaps, Type: c.Type, Flags: c.Flags, Num: q.num, PD: q.pd, SendCQ: c.SendCQ,
		RecvCQ: c.RecvCQ, SRQ: c.SRQ}
	for _, r := range []*ring{&q.sq, &q.rq} {
		r.mu.Lock()
		r.state, r.head, r.used = ci.QPReset, 0, 0
		r.mu.Unlock()
	}
	if q.user != nil { // user.go
		q.user.reset()
	}
}

// Num returns the QP number.
func (q *qp) Num() ci.QPN { return q.num }

// TimeWait does nothing: this hardware reuses a number only after all others, which takes longer than any time-wait.
func (q *qp) TimeWait(time.Duration) {}

// Destroy destroys the QP. Status: InvalidQPHandle, Timeout. Context: drain.
func (q *qp) Destroy() error {
	const verb = "QP.Destroy"
	if err := q.refs.BeginDestroy(verb, ci.InvalidQPHandle); err != nil {
		return err
	}
	q.stopPosts()
	err := q.hca.dev.DestroyQP(q.num)
	q.resumePosts() // a callback may wait in a post, which then fails
	if err != nil {
		return commandError(verb, err)
	}
	q.send.save()
	q.recv.save()
	q.hca.mu.Lock()
	delete(q.hca.qp, q.num)
	q.hca.mu.Unlock()
	if q.user != nil { // user.go
		q.user.close(q)
	}
	q.notify.Close()
	q.hca.qps.Give()
	driver.PutAll(q.uses)
	return nil
}

// stopPosts waits for posts in progress and holds up new ones until resumePosts.
func (q *qp) stopPosts()   { q.sq.post.Lock(); q.rq.post.Lock() }
func (q *qp) resumePosts() { q.rq.post.Unlock(); q.sq.post.Unlock() }

// Query returns the attributes of the QP. Status: InvalidQPHandle.
func (q *qp) Query() (ci.QPAttr, error) {
	q.modify.Lock()
	defer q.modify.Unlock()
	if !q.refs.Alive() {
		return ci.QPAttr{}, fail("QP.Query", ci.InvalidQPHandle, "")
	}
	a := q.attr
	a.State = q.hca.dev.QPState(q.num)
	a.CurrentState = a.State
	return a, nil
}
