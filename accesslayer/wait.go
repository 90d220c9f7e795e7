package accesslayer

import (
	"context"
	"runtime"
	"time"

	"ciddk/ci"
)

// Wait waits until there are completions, moves up to len(wc) of them into wc, and returns their number. Several
// goroutines may call Wait; each completion is returned to one of them. Completions that are queued are returned even
// if ctx has ended. When Wait returns the error of ctx, it has taken no completion. So a program whose ctx ends with a
// connection still gets the completions before the end. Wait polls, arms the CQ, polls again and sleeps, so that no
// completion stays without a callback. It does not allocate.
//
// Status: as ci.CQ.Poll and Notify; InvalidCQHandle with ErrClosed, also if the destruction begins during the call.
func (q *CQ) Wait(ctx context.Context, wc []ci.WC) (int, error) { return q.wait(ctx, wc, nil) }

// wait is Wait. It also returns, with no completions and no error, after it has taken a token from kick.
func (q *CQ) wait(ctx context.Context, wc []ci.WC, kick <-chan struct{}) (int, error) {
	const verb = "CQ.Wait"
	if n, err := q.Poll(wc); n != 0 || err != nil {
		return n, q.unlessEnded(verb, err)
	}
	if err := q.n.enter(verb); err != nil {
		return 0, err
	}
	n, err := q.sleep(ctx, verb, wc, kick)
	q.n.leave()
	return n, err
}

func (q *CQ) sleep(ctx context.Context, verb string, wc []ci.WC, kick <-chan struct{}) (int, error) {
	// An armed CQ calls back once, and the callback wakes one waiter. Therefore only the holder of the baton arms.
	select {
	case q.baton <- struct{}{}:
	case <-kick:
		return 0, nil
	case <-ctx.Done():
		return q.last(ctx, verb, wc)
	case <-q.ended:
		return 0, kindCQ.closed(verb)
	}
	defer func() { <-q.baton }()
	q.waiters.Add(1)
	defer q.waiters.Add(-1)
	for {
		select { // left over from an earlier arming
		case <-q.signal:
		default:
		}
		if err := q.Notify(ci.NotifyNext); err != nil {
			return 0, q.unlessEnded(verb, err)
		}
		if n, err := q.Poll(wc); n != 0 || err != nil {
			return n, q.unlessEnded(verb, err)
		}
		select {
		case <-q.signal:
		case <-kick:
			return 0, nil
		case <-ctx.Done():
			return q.last(ctx, verb, wc)
		case <-q.ended:
			return 0, kindCQ.closed(verb)
		}
		if n, err := q.Poll(wc); n != 0 || err != nil {
			return n, q.unlessEnded(verb, err)
		}
	}
}

// last ends a wait whose context has ended. Completions may have arrived since the last poll.
func (q *CQ) last(ctx context.Context, verb string, wc []ci.WC) (int, error) {
	if n, err := q.Poll(wc); n != 0 || err != nil {
		return n, q.unlessEnded(verb, err)
	}
	return 0, ctx.Err()
}

// unlessEnded returns ErrClosed instead of the driver's error if the CQ is destroyed.
func (q *CQ) unlessEnded(verb string, err error) error {
	if err != nil {
		select {
		case <-q.ended:
			return kindCQ.closed(verb)
		default:
		}
	}
	return err
}

// PollMode is a way to wait for completions.
type PollMode uint8

const (
	PollEvent  PollMode = iota // sleep until the CQ calls back; uses no processor time when idle
	PollBusy                   // poll all the time; lowest latency, uses one processor
	PollHybrid                 // poll for Spin after the last completion, then sleep
)

// Poller consumes the completions of a CQ in one of the modes. No mode loses completions.
type Poller struct {
	CQ   *CQ
	Mode PollMode
	Spin time.Duration // of PollHybrid; 0: 20 microseconds
	// Kick, if not nil, ends Next early: it returns no completions and no error after it has taken a token from Kick.
	Kick <-chan struct{}
}

// spinsPerLook is the number of empty polls between two checks of the clock and the context, which cost more than a
// poll.
const spinsPerLook = 64

// Next waits for completions as CQ.Wait does, in the way of Mode.
func (p Poller) Next(ctx context.Context, wc []ci.WC) (int, error) {
	const verb = "Poller.Next"
	q := p.CQ
	if p.Mode == PollEvent {
		return q.wait(ctx, wc, p.Kick)
	}
	if n, err := q.Poll(wc); n != 0 || err != nil {
		return n, q.unlessEnded(verb, err)
	}
	if err := q.n.enter(verb); err != nil {
		return 0, err
	}
	defer q.n.leave()
	spin := p.Spin
	if spin <= 0 {
		spin = 20 * time.Microsecond
	}
	clock := q.n.al.cfg.Clock
	end := clock.Elapsed() + spin
	for {
		for range spinsPerLook {
			if n, err := q.Poll(wc); n != 0 || err != nil {
				return n, q.unlessEnded(verb, err)
			}
			runtime.Gosched()
		}
		select {
		case <-ctx.Done():
			return q.last(ctx, verb, wc)
		case <-q.ended:
			return 0, kindCQ.closed(verb)
		case <-p.Kick:
			return 0, nil
		default:
		}
		if p.Mode == PollHybrid && clock.Elapsed() >= end {
			return q.sleep(ctx, verb, wc, p.Kick)
		}
	}
}
