package rvt

import (
	"sync"
	"sync/atomic"
	"time"

	"ciddk/ci"
	"ciddk/ci/driver"
	"ciddk/clock"
)

// CQ is a completion queue.
type CQ struct {
	ci.UnimplementedCQ
	refs      driver.Refs
	notify    driver.Notifier
	pd        *PD
	dev       *device
	destroyed atomic.Bool

	ring  CompletionRing
	bytes int64 // of HCA.queues; guarded by putMu

	stage  CompletionBatch      // ring, if it has that
	shared SharedCompletionRing // ring, if its consumer is another process

	getMu  sync.Mutex
	taken  atomic.Uint64 // entries ever taken; written with getMu
	_      [64]byte      // pollers and engines write to different cache lines
	putMu  sync.Mutex    // after getMu where both are taken
	stored atomic.Uint64 // entries ever put; written with putMu

	arm     arming
	after   int // armAfter: completions to go
	pending int // completions since the last callback that moderation holds back
	mod     ci.Moderation
	modAt   clock.Deadline
	modDue  time.Duration // when a held callback goes out at the latest
	overrun bool
}

// arming is the condition for the next callback of a queue.
type arming uint8

const (
	armNone arming = iota
	armSolicited
	armNext
	armAfter
)

// minModeration is the longest time that a callback waits for a count when there is no period.
const minModeration = time.Millisecond

// CreateCQ creates a completion queue. Its callbacks run on the goroutine of the vector that c.Affinity selects, or on
// a goroutine of its own if it selects none.
func (d *PD) CreateCQ(c ci.CQCreate) (ci.CQ, error) {
	const verb = "PD.CreateCQ"
	dev := d.dev
	if c.Size <= 0 || c.Size > dev.attr.MaxCQEs {
		return nil, outside(verb, ci.InvalidCQSize, "Size", c.Size, 1, dev.attr.MaxCQEs)
	}
	if int(c.Affinity.Vector) > len(dev.vectors) {
		return nil, outside(verb, ci.InvalidParameter, "Affinity.Vector", int(c.Affinity.Vector), 0, len(dev.vectors))
	}
	if err := d.child(verb, kindCQ, dev.attr.MaxCQs); err != nil {
		return nil, err
	}
	bytes := dev.cqBytes() + dev.completionBytes(c.Size)
	if err := dev.reserve(verb, "the queue", bytes); err != nil {
		d.unchild(kindCQ)
		return nil, err
	}
	ring, err := d.completionRing(c.Size, c.User)
	if err != nil {
		dev.queues.give(bytes)
		d.unchild(kindCQ)
		return nil, failErr(verb, ci.InsufficientResources, err)
	}
	q := &CQ{pd: d, dev: dev, ring: ring, bytes: bytes}
	q.stage, _ = ring.(CompletionBatch)
	q.shared, _ = ring.(SharedCompletionRing)
	q.notify = driver.Notifier{OnCompletion: c.OnCompletion, OnEvent: c.OnEvent, Context: c.Context}
	if v := c.Affinity.Vector; v > 0 {
		q.notify.Vector = &dev.vectors[v-1]
	}
	q.modAt.Fire = q.moderated
	return q, nil
}

// completionRing makes the queue of a CQ and answers ub.
func (d *PD) completionRing(size int, ub *ci.UserBuffer) (CompletionRing, error) {
	ring, err := d.rings().CompletionRing(size, ub)
	if err != nil {
		return nil, err
	}
	if d.user == nil {
		nothingForUser(ub)
		return ring, nil
	}
	if err := d.user.AddCQ(ring, ub); err != nil {
		freeRing(ring)
		return nil, err
	}
	return ring, nil
}

var (
	errPollDestroyed   = &ci.Error{Verb: "CQ.Poll", Status: ci.InvalidCQHandle}
	errNotifyDestroyed = &ci.Error{Verb: "CQ.Notify", Status: ci.InvalidCQHandle}
)

// Poll removes completions from the queue and stores them in wc.
func (q *CQ) Poll(wc []ci.WC) (int, error) {
	if q.destroyed.Load() {
		return 0, errPollDestroyed
	}
	if len(wc) == 0 {
		return 0, nil
	}
	n := q.take(wc)
	if n == 0 && q.dev.drive() {
		n = q.take(wc)
	}
	return n, nil
}

func (q *CQ) take(wc []ci.WC) int {
	if q.stored.Load() == q.taken.Load() { // polling an empty queue takes no lock
		return 0
	}
	q.getMu.Lock()
	n := q.ring.Get(wc)
	if n > 0 {
		q.taken.Add(uint64(n))
	}
	q.getMu.Unlock()
	return n
}

// Peek returns the number of entries in the queue.
func (q *CQ) Peek() (int, error) {
	if !q.dev.attr.Caps.Has(ci.CapPeek) {
		return q.UnimplementedCQ.Peek()
	}
	if q.destroyed.Load() {
		return 0, fail("CQ.Peek", ci.InvalidCQHandle)
	}
	q.getMu.Lock()
	defer q.getMu.Unlock()
	return q.ring.Len(), nil
}

// Notify arms one callback.
func (q *CQ) Notify(when ci.Notify) error {
	if q.destroyed.Load() {
		return errNotifyDestroyed
	}
	defer q.dev.attend()
	q.putMu.Lock()
	defer q.putMu.Unlock()
	switch when {
	case ci.NotifyNext:
		q.arm = armNext
	case ci.NotifySolicited:
		if q.arm != armNext {
			q.arm = armSolicited
		}
	default:
		return failf("CQ.Notify", ci.InvalidParameter, "unknown condition")
	}
	return nil
}

// NotifyAfter arms one callback after n completions. A later Notify replaces the arming, and the other way round.
func (q *CQ) NotifyAfter(n int) error {
	const verb = "CQ.NotifyAfter"
	if !q.dev.attr.Caps.Has(ci.CapNotifyAfter) {
		return q.UnimplementedCQ.NotifyAfter(n)
	}
	if q.destroyed.Load() {
		return fail(verb, ci.InvalidCQHandle)
	}
	defer q.dev.attend()
	q.putMu.Lock()
	defer q.putMu.Unlock()
	if n < 1 || n > q.ring.Cap() {
		return outside(verb, ci.InvalidParameter, "n", n, 1, q.ring.Cap())
	}
	q.arm, q.after = armAfter, n
	return nil
}

// Query returns the size and the moderation.
func (q *CQ) Query() (ci.CQAttr, error) {
	if q.destroyed.Load() {
		return ci.CQAttr{}, fail("CQ.Query", ci.InvalidCQHandle)
	}
	q.putMu.Lock()
	defer q.putMu.Unlock()
	return ci.CQAttr{Size: q.ring.Cap(), Moderation: q.mod}, nil
}

// Resize changes the capacity and keeps the entries.
func (q *CQ) Resize(r ci.CQResize) (int, error) {
	const verb = "CQ.Resize"
	size := r.Size
	if !q.dev.attr.Caps.Has(ci.CapResizeCQ) {
		return q.UnimplementedCQ.Resize(r)
	}
	if size <= 0 || size > q.dev.attr.MaxCQEs {
		return 0, outside(verb, ci.InvalidCQSize, "size", size, 1, q.dev.attr.MaxCQEs)
	}
	q.pd.process.settle() // what was posted before may complete here, and not fit
	q.getMu.Lock()
	defer q.getMu.Unlock()
	q.putMu.Lock()
	defer q.putMu.Unlock()
	if q.ring.Len() > size {
		return 0, fail(verb, ci.Overflow)
	}
	if q.destroyed.Load() {
		return 0, fail(verb, ci.InvalidCQHandle)
	}
	bytes := q.dev.cqBytes() + q.dev.completionBytes(size)
	if err := q.dev.reserve(verb, "the new size",
		bytes); err != nil { // old and new exist side by side while entries move
		return 0, err
	}
	if err := resizeRing(q.ring, size, r.User); err != nil {
		q.dev.queues.give(bytes)
		return 0, failErr(verb, ci.StatusOf(err), err)
	}
	q.dev.queues.give(q.bytes)
	q.bytes = bytes
	return q.ring.Cap(), nil
}

// Modify sets the moderation.
func (q *CQ) Modify(m ci.Moderation) error {
	const verb = "CQ.Modify"
	if !q.dev.attr.Caps.Has(ci.CapModeration) {
		return q.UnimplementedCQ.Modify(m)
	}
	if q.destroyed.Load() {
		return fail(verb, ci.InvalidCQHandle)
	}
	if m.Count < 0 || m.Period < 0 {
		return failf(verb, ci.InvalidParameter, "negative moderation")
	}
	q.putMu.Lock()
	q.mod = m
	held := q.pending > 0
	if held {
		q.pending, q.arm = 0, armNone
	}
	q.putMu.Unlock()
	if held {
		q.notify.Completion()
	}
	return nil
}

// Destroy frees the queue and the entries in it.
func (q *CQ) Destroy() error {
	if err := q.refs.BeginDestroy("CQ.Destroy", ci.InvalidCQHandle); err != nil {
		return err
	}
	q.getMu.Lock()
	q.putMu.Lock()
	q.destroyed.Store(true)
	q.pending = 0 // so that the timer of moderation does not set itself again
	freeRing(q.ring)
	q.ring, q.stage, q.shared = noCompletionRing{}, nil, nil
	q.dev.queues.give(q.bytes)
	q.putMu.Unlock()
	q.getMu.Unlock()
	q.dev.wheel.Cancel(&q.modAt)
	q.notify.Close()
	q.pd.unchild(kindCQ)
	return nil
}

// pendingWC is a completion on its way to a queue.
type pendingWC struct {
	cq        *CQ
	solicited bool
	wc        ci.WC
}

// put appends completions of one queue. The caller holds the token of a QP. No callback runs inside put.
func (q *CQ) put(list []pendingWC) {
	fire, solicited := false, false
	stored := 0
	q.putMu.Lock()
	for i := range list {
		p := &list[i]
		if !q.append(&p.wc) {
			q.dev.count.add(CountCQOverflow, 1)
			if !q.overrun {
				q.overrun = true
				go q.overflowed() // it takes the tokens of other QPs
			}
			continue
		}
		stored++
		solicited = solicited || p.solicited || p.wc.Status != ci.WCSuccess
		if q.overrun { // the consumer made room: the next overflow is a new one
			q.overrun = false
		}
		switch q.arm {
		case armNext:
			fire = true
		case armSolicited:
			fire = fire || p.solicited || p.wc.Status != ci.WCSuccess
		case armAfter:
			q.after--
			fire = fire || q.after == 0
		}
	}
	q.stored.Add(uint64(stored))
	if q.stage != nil {
		q.stage.Publish()
	}
	// The consumer's memory is no longer armed while moderation holds a callback back, and all completions count then.
	if q.shared != nil && stored > 0 && (q.shared.Fires(solicited) || q.pending > 0) {
		fire = true
	}
	if fire {
		fire = q.moderate(len(list))
	}
	q.putMu.Unlock()
	if fire {
		q.notify.Completion()
	}
}

// append adds one completion, which becomes visible with the end of put. It reports false if the queue is full.
func (q *CQ) append(wc *ci.WC) bool {
	if q.stage != nil {
		return q.stage.Stage(wc)
	}
	return q.ring.Put(wc)
}

// moderate reports whether a callback that is due runs now, and disarms the queue if so.
func (q *CQ) moderate(n int) bool {
	if q.mod.Count > 1 || q.mod.Period > 0 {
		first := q.pending == 0
		q.pending += n
		if q.mod.Count == 0 || q.pending < q.mod.Count {
			if first {
				wait := q.mod.Period
				if wait == 0 {
					wait = minModeration
				}
				q.modDue = q.dev.clock.Elapsed() + wait
				q.dev.wheel.Set(&q.modAt, q.modDue)
			}
			return false
		}
		q.pending = 0
	}
	q.arm = armNone
	return true
}

// Pend is for a queue in the consumer's memory. The consumer has armed it while n completions wait that it has not
// seen. Pend calls the completion callback, delayed as the moderation demands.
func (q *CQ) Pend(n int) {
	q.putMu.Lock()
	fire := !q.destroyed.Load() && q.moderate(n)
	q.putMu.Unlock()
	if fire {
		q.notify.Completion()
	}
}

// moderated runs at the end of a moderation period.
func (q *CQ) moderated() {
	q.putMu.Lock()
	fire := q.pending > 0
	if fire && q.dev.clock.Elapsed() < q.modDue { // the timer belongs to a callback that has run
		q.dev.wheel.Set(&q.modAt, q.modDue)
		fire = false
	}
	if fire {
		q.pending, q.arm = 0, armNone
	}
	q.putMu.Unlock()
	if fire {
		q.notify.Completion()
	}
}

// overflowed raises the events of lost completions and takes the QPs that use the queue to Error (IBTA volume 1,
// 10.2.4.4).
func (q *CQ) overflowed() {
	q.notify.Event(ci.Event{Type: ci.EventCQOverflow})
	q.notify.Event(ci.Event{Type: ci.EventCQError})
	q.dev.overrun(q)
}
