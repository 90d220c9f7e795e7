package userlib

import (
	"runtime"
	"sync"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/hca/reference/arena"
	"ciddk/internal/rings"
)

// cq is a completion queue.
type cq struct {
	destroyed atomic.Bool                          // or being destroyed; written with mu
	ring      atomic.Pointer[rings.UserCompletion] // replaced, with mu, by a resize
	ca        *ca
	empty     atomic.Uint32 // polls that found nothing, in a row
	readers   atomic.Int32  // calls of len in progress

	mu       sync.Mutex // polls, armings and resizes
	life     arena.Life
	isBroken bool // the queue does not exist any more
	contexts map[ci.QPN]*qpContext
	dead     int // contexts of QPs that were destroyed
}

// qpContext is the context of a QP, for the completions of the QP.
type qpContext struct {
	value     any
	destroyed bool
}

func preCreateCQ(a *ci.UserCreateCQ, ub *ci.UserBuffer) error {
	if _, ok := a.PD.(*pd); ok {
		ask(ub, rings.UserQueueSize)
	}
	return nil
}

func postCreateCQ(a *ci.UserCreateCQ, ub *ci.UserBuffer, err error) error {
	const verb = "PD.CreateCQ"
	d, ok := a.PD.(*pd)
	if !ok || err != nil || ub.Status != 0 {
		return nil
	}
	ring, err := openCQ(verb, d.ca, ub.Out)
	if err != nil {
		return err
	}
	q := &cq{ca: d.ca, contexts: map[ci.QPN]*qpContext{}}
	q.ring.Store(ring)
	q.ca.Hold()
	a.CQ = ci.UserCQ{Handle: q, Poll: q.poll, Peek: q.peek, Notify: q.notify}
	return nil
}

// openCQ opens the queue in an answer of the driver.
func openCQ(verb string, c *ca, answer []byte) (*rings.UserCompletion, error) {
	var r rings.UserQueue
	if err := r.DecodeCQ(answer); err != nil {
		return nil, badAnswer(verb, "%v", err)
	}
	b, ok := c.at(r.Offset, r.Size)
	if !ok {
		return nil, badAnswer(verb, "a queue outside the shared memory")
	}
	ring, ok := rings.OpenCompletion(b, r.Shape)
	if !ok {
		return nil, badAnswer(verb, "a queue of the shape %+v in %d bytes", r.Shape, r.Size)
	}
	return ring, nil
}

// preResizeCQ makes polls and armings wait until the queue has moved or remains.
func preResizeCQ(a *ci.UserResizeCQ, ub *ci.UserBuffer) error {
	if q, ok := a.CQ.(*cq); ok {
		ask(ub, rings.UserQueueSize)
		q.mu.Lock()
	}
	return nil
}

func postResizeCQ(a *ci.UserResizeCQ, ub *ci.UserBuffer, err error) {
	q, ok := a.CQ.(*cq)
	if !ok {
		return
	}
	defer q.mu.Unlock()
	if err == nil && ub.Status == 0 {
		q.move(ub.Out)
	}
}

// move opens the queue at its new place, which is in the answer of the driver. The caller holds q.mu.
func (q *cq) move(answer []byte) {
	if ring, err := openCQ("CQ.Resize", q.ca, answer); err == nil {
		q.ring.Store(ring)
	} else {
		q.isBroken = true
		q.destroyed.Store(true)
	}
}

// preDestroyCQ ends polls and armings, until Destroy has failed.
func preDestroyCQ(a *ci.UserDestroyCQ, _ *ci.UserBuffer) error {
	if q, ok := a.CQ.(*cq); ok {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.life.Begin()
		q.destroyed.Store(true)
	}
	return nil
}

func postDestroyCQ(a *ci.UserDestroyCQ, _ *ci.UserBuffer, err error) {
	q, ok := a.CQ.(*cq)
	if !ok {
		return
	}
	q.mu.Lock()
	hasEnded := q.life.Finish(err)
	q.destroyed.Store(q.isBroken || q.life.IsOver())
	q.mu.Unlock()
	if hasEnded {
		for q.readers.Load() > 0 { // of the memory, which Drop may unmap; they return at once
			runtime.Gosched()
		}
		q.ca.Drop()
	}
}

var (
	errPollDestroyed   = &ci.Error{Verb: "CQ.Poll", Status: ci.InvalidCQHandle}
	errPeekDestroyed   = &ci.Error{Verb: "CQ.Peek", Status: ci.InvalidCQHandle}
	errNotifyDestroyed = &ci.Error{Verb: "CQ.Notify", Status: ci.InvalidCQHandle}
	errNotify          = &ci.Error{Verb: "CQ.Notify", Status: ci.InvalidParameter, Detail: "unknown condition"}
)

// poll implements ci.UserCQ.Poll. Polling an empty queue takes no lock.
func (q *cq) poll(wc []ci.WC) (int, error) {
	if q.destroyed.Load() {
		return 0, errPollDestroyed
	}
	if len(wc) == 0 {
		return 0, nil
	}
	n, ok := q.len()
	switch {
	case !ok:
		return 0, errPollDestroyed
	case n == 0:
		q.foundNothing()
		return 0, nil
	}
	if q.empty.Load() != 0 {
		q.empty.Store(0)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.destroyed.Load() {
		return 0, errPollDestroyed
	}
	n = q.ring.Load().Get(wc)
	for i := range wc[:n] {
		if c := q.contexts[wc[i].QPN]; c != nil {
			wc[i].Context = c.value
		}
	}
	return n, nil
}

// pollsPerYield is the number of empty polls in a row after which a poll yields the processor.
const pollsPerYield = 8

// foundNothing counts an empty poll. A process that polls and finds nothing may keep the processor from the engine, or
// from the process that it waits for, until the end of its time slice. It therefore yields from time to time.
func (q *cq) foundNothing() {
	n := q.empty.Load() + 1
	if n < pollsPerYield {
		q.empty.Store(n)
		return
	}
	q.empty.Store(0)
	q.ca.Yield()
}

func (q *cq) peek() (int, error) {
	n, ok := q.len()
	if !ok {
		return 0, errPeekDestroyed
	}
	return n, nil
}

// len returns the number of completions that wait, without a lock. It reports false for a queue that is destroyed. The
// memory of the queue is mapped until it returns: postDestroyCQ waits for readers.
func (q *cq) len() (n int, ok bool) {
	q.readers.Add(1)
	defer q.readers.Add(-1)
	if q.destroyed.Load() {
		return 0, false
	}
	return q.ring.Load().Len(), true
}

func (q *cq) notify(when ci.Notify) error {
	switch {
	case q.destroyed.Load():
		return errNotifyDestroyed
	case when > ci.NotifySolicited:
		return errNotify
	}
	q.mu.Lock() // not into a queue that moves
	defer q.mu.Unlock()
	if q.destroyed.Load() {
		return errNotifyDestroyed
	}
	q.ring.Load().Arm(when)
	return nil
}

// add adds the context of a QP. Contexts of destroyed QPs are needed as long as completions of them may wait.
func (q *cq) add(num ci.QPN, value any) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.dead > 0 && q.ring.Load().Len() == 0 {
		for n, c := range q.contexts {
			if c.destroyed {
				delete(q.contexts, n)
			}
		}
		q.dead = 0
	}
	if c := q.contexts[num]; c != nil && c.destroyed {
		q.dead--
	}
	q.contexts[num] = &qpContext{value: value}
}

// remove notes that a QP was destroyed.
func (q *cq) remove(num ci.QPN) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c := q.contexts[num]; c != nil && !c.destroyed {
		c.destroyed = true
		q.dead++
	}
}
