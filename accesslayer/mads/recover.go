package mads

import (
	"cmp"
	"slices"
	"time"

	"ciddk/ci"
)

// Recovery. A send that fails stops the send queue (UD: SQ error); everything else takes the QP to Error. The QP is emptied first, so that
// what was sent is known from its completions, then goes on, from SQ error at once, from any other state by way of Reset. What had
// been flushed is in the queue again, in its old order, and goes out before all else. (IBTA volume 1, 10.3.1; the original access
// layer's special QP service.)

const (
	drainTime    = time.Second // the HCA flushes on its own; who does not in this time is reset with work outstanding
	retryTime    = 10 * time.Millisecond
	maxRetryTime = 10 * time.Second
	maxAttempts  = 8 // a datagram flushed that often is dropped: something about it, or the QP, will not get better
)

// fault begins recovery, if it is not in progress.
func (e *endpoint) fault() {
	if !e.up.Load() {
		return // what it says will be seen in completions
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

// again queues a send that was flushed. Completions come in order of posting, so the flushed ones form a list of their own that is put in
// front when recovery ends. e.mu is held.
func (e *endpoint) again(s *send) {
	if s.attempts++; s.attempts > maxAttempts {
		e.failed(s, ci.WCFlushErr.Err())
		return
	}
	e.flushed.push(s)
}

// signalQuiet wakes the recovery when there is nothing outstanding. e.mu is held.
func (e *endpoint) signalQuiet() {
	if e.recovering && (e.closed || e.empty()) {
		select {
		case e.quiet <- struct{}{}:
		default:
		}
	}
}

// empty tells whether all sends have completed. e.mu is held.
func (e *endpoint) empty() bool { return !e.busy && len(e.slots) == len(e.out) }

func (e *endpoint) recover() {
	backoff := retryTime
	for {
		ok, end := e.revive()
		if ok || end {
			return
		}
		if e.pause(backoff, func() bool { return false }) {
			return
		}
		backoff = min(2*backoff, maxRetryTime)
	}
}

// pause waits for the time, for what until says, or for the end, which it reports.
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

// revive tries once.
func (e *endpoint) revive() (ok, end bool) {
	if e.pause(drainTime, e.empty) {
		return false, true
	}
	attr, err := e.qp.Query()
	faulty := attr.State != ci.QPRTS // an event may come when its fault has been dealt with
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
		e.p.m.al.Logger().Error("mads: a QP cannot be brought back yet", "guid", e.p.id.CA, "port", e.p.id.Num, "QP", e.num, "error", err)
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

// reset takes the QP through Reset.
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
	e.gen++ // completions of before count no more
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
		e.again(s)
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
