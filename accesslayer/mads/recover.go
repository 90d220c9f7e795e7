package mads

import (
	"cmp"
	"slices"
	"time"

	"ciddk/ci"
)

// Recovery. A send that fails stops the send queue of a UD QP (SQ error); any other error moves the QP to Error. First
// the QP is drained, so that its completions show what was sent. Then it continues: from SQ error directly, and from
// any other state through Reset. Sends that were flushed are queued again in their order, before all others. (IBTA
// volume 1, 10.3.1; the special QP service of the original access layer.)

const (
	drainTime    = time.Second // an HCA that has not flushed its queues in this time is reset with work outstanding
	retryTime    = 10 * time.Millisecond
	maxRetryTime = 10 * time.Second
	maxAttempts  = 8 // a datagram that was flushed this often is dropped, since it or the QP does not recover
)

// fault starts recovery, unless it is in progress.
func (e *endpoint) fault() {
	if !e.up.Load() {
		return // completions will show the fault
	}
	e.mu.Lock()
	e.faultLocked()
	e.mu.Unlock()
}

func (e *endpoint) faultLocked() {
	if e.closed || e.recovering {
		return
	}
	e.recovering = true
	e.p.h.wg.Go(e.recover)
}

// requeue queues a send that was flushed. Completions come in the order of posting, so the flushed sends form a list
// that is put in front when recovery ends. e.mu is held.
func (e *endpoint) requeue(s *send) {
	if s.attempts++; s.attempts > maxAttempts {
		e.failed(s, ci.WCFlushErr.Err())
		return
	}
	e.flushed.push(s)
}

// signalQuiet wakes the recovery if nothing is outstanding. e.mu is held.
func (e *endpoint) signalQuiet() {
	if e.recovering && (e.closed || e.empty()) {
		select {
		case e.quiet <- struct{}{}:
		default:
		}
	}
}

// empty reports whether all sends have completed. e.mu is held.
func (e *endpoint) empty() bool { return !e.busy && len(e.slots) == len(e.out) }

func (e *endpoint) recover() {
	backoff := retryTime
	for {
		ok, end := e.revive()
		if ok || end {
			return
		}
		if e.pause(backoff, func() bool { return false }) {
			return // it is closed
		}
		backoff = min(2*backoff, maxRetryTime)
	}
}

// pause waits for d, until the condition until, or until the endpoint is closed, which it reports.
func (e *endpoint) pause(d time.Duration, until func() bool) (end bool) {
	over := make(chan struct{})
	timer := e.p.m.al.Clock().AfterFunc(d, func() { close(over) })
	defer timer.Stop()
	for {
		e.mu.Lock()
		closed, done := e.closed, until()
		e.mu.Unlock()
		if closed || done {
			return closed
		}
		select {
		case <-e.quiet:
		case <-over:
			return false
		}
	}
}

// revive makes one attempt to recover the QP.
func (e *endpoint) revive() (ok, end bool) {
	if e.pause(drainTime, e.empty) {
		return false, true
	}
	attr, err := e.qp.Query()
	faulty := attr.State != ci.QPRTS // an event may arrive after its fault was handled
	if err == nil && attr.State == ci.QPSQError {
		err = e.qp.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPRTS})
	} else if err == nil && faulty {
		err = e.reset()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return false, true
	}
	if err == nil && len(e.recvFree) > 0 {
		err = e.postRecvs()
	}
	if err != nil {
		e.p.m.al.Logger().Error("mads: recovery of a QP failed; retrying", "guid", e.p.id.CA, "port", e.p.id.Num, "QP",
			e.num, "error", err)
		return false, false
	}
	for s := e.queue.pop(); s != nil; s = e.queue.pop() {
		e.flushed.push(s)
	}
	e.queue, e.flushed = e.flushed, sendQueue{}
	e.recovering = false
	if faulty {
		e.p.count.recovered.Add(1)
	}
	e.flush()
	return true, false
}

// reset moves the QP through Reset to RTS.
func (e *endpoint) reset() error {
	if err := e.qp.Modify(ci.ToError()); err != nil {
		return err
	}
	if e.pause(drainTime, func() bool { return e.empty() && e.nposted == 0 }) {
		return nil
	}
	if err := e.qp.Modify(ci.ToReset()); err != nil {
		return err
	}
	e.mu.Lock()
	e.gen++ // earlier completions do not count any more
	var left []*send
	for slot, s := range e.out {
		if s != nil {
			e.out[slot] = nil
			e.slots = append(e.slots, uint16(slot))
			left = append(left, s)
		}
	}
	slices.SortFunc(left, func(a, b *send) int { return cmp.Compare(a.order, b.order) })
	for _, s := range left {
		e.requeue(s)
	}
	for slot, had := range e.posted {
		if had {
			e.posted[slot] = false
			e.recvFree = append(e.recvFree, uint16(slot))
		}
	}
	e.nposted = 0
	e.mu.Unlock()
	return e.qp.InitDatagram(e.p.id.Num, 0, e.defaultPKey())
}
