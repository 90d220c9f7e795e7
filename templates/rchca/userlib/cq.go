package userlib

import (
	"sync"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/templates/rchca/userqueues"
)

// cq is a completion queue.
type cq struct {
	number    uint32 // in the hardware
	size      int
	destroyed atomic.Bool

	mu       sync.Mutex
	ring     *userqueues.Completions // nil if the queue is not in shared memory
	polled   uint32
	contexts map[ci.QPN]*qpContext
	dead     int // contexts of QPs that were destroyed
}

// qpContext is the context of a QP, for its completions.
type qpContext struct {
	value     any
	destroyed bool
}

var errPoll = &ci.Error{Verb: "CQ.Poll", Status: ci.InvalidCQHandle}

// preCreateCQ runs before the CQ is created. a.Create has the arguments, which it may change, for example to round up
// the size.
//
// A library that allocates the entries itself does so here, and puts address and length into the request; the driver
// reaches them with Process.Memory. The memory is then charged to the process, and must stay allocated until
// postDestroyCQ. [SAS-2.4-03, -05, -09]
func preCreateCQ(_ *ci.UserCreateCQ, ub *ci.UserBuffer) error { return request(ub) }

// postCreateCQ runs after the create, also after one that failed: release then what preCreateCQ has allocated.
//
// The function Poll replaces the verb. The others of a.CQ are nil, which leaves their verbs to the proxy: the driver
// arms the CQ, and calls its completion callback. [SAS-2.4-12]
func postCreateCQ(a *ci.UserCreateCQ, ub *ci.UserBuffer, err error) error {
	r, ok, err := answer("PD.CreateCQ", ub, err)
	p, is := a.PD.(*pd)
	if !ok || !is {
		return err
	}
	q := &cq{number: r.Number, size: a.Granted}
	a.CQ = ci.UserCQ{Handle: q}
	if r.Offset == 0 {
		return nil
	}
	if q.ring, ok = userqueues.OpenCompletions(p.ca.at(r.Offset), int(r.Slots)); !ok {
		return badQueue("PD.CreateCQ")
	}
	q.contexts = map[ci.QPN]*qpContext{}
	a.CQ.Poll = q.poll
	return nil
}

// poll is CQ.Poll. It makes no system call and does not allocate.
func (q *cq) poll(wc []ci.WC) (int, error) {
	if q.destroyed.Load() {
		return 0, errPoll
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(wc), int(q.ring.Added.Load()-q.polled))
	for i := range wc[:n] {
		q.ring.Get(q.polled+uint32(i), &wc[i])
		if c := q.contexts[wc[i].QPN]; c != nil {
			wc[i].Context = c.value
		}
	}
	if n > 0 {
		q.polled += uint32(n)
		q.ring.Polled.Store(q.polled)
	}
	return n, nil
}

// add adds the context of a QP. Contexts of destroyed QPs are needed as long as completions of them may wait.
func (q *cq) add(num ci.QPN, value any) {
	if q == nil || q.ring == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.dead > 0 && q.ring.Added.Load() == q.polled {
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
	if q == nil || q.ring == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if c := q.contexts[num]; c != nil && !c.destroyed {
		c.destroyed = true
		q.dead++
	}
}

// preQueryCQ does all the work of CQ.Query, so that no message is sent. Only the hooks of AVs and CQ.Query may return
// VerbsProcessingDone. Remove this hook when the driver has verbs that change a CQ, such as Resize or Modify.
func preQueryCQ(a *ci.UserQueryCQ, _ *ci.UserBuffer) error {
	q, ok := a.CQ.(*cq)
	if !ok || q.destroyed.Load() { // the proxy then returns InvalidCQHandle
		return nil
	}
	a.Attr = ci.CQAttr{Size: q.size}
	return ci.VerbsProcessingDone
}

// postDestroyCQ runs after CQ.Destroy. If err is not nil, the CQ still exists. Release here the memory of the entries,
// if the library has allocated it.
func postDestroyCQ(a *ci.UserDestroyCQ, _ *ci.UserBuffer, err error) {
	if q, ok := a.CQ.(*cq); ok && err == nil {
		q.destroyed.Store(true)
	}
}
