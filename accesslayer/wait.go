package accesslayer

import (
	"context"
	"runtime"
	"time"

	"ciddk/ci"
)

// Wait moves up to len(wc) completions into wc, and waits for the first one if there is none. It polls, arms, polls again, and only then
// sleeps, so that no completion is left behind without a callback; it allocates nothing. Several goroutines may wait, and each
// completion goes to one of them. What is queued wins over a ctx that has ended: its error comes when a last look has found nothing, and
// no completion is taken then. So whoever waits with a ctx that ends with a connection still gets what came before the end.
// Status: as ci.CQ.Poll and Notify; InvalidCQHandle with ErrClosed, also when the destruction begins meanwhile.
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
	// An armed queue calls back once, and the callback wakes one: only the holder of the baton arms.
	select {
	case q.baton <- struct{}{}:
	case <-ctx.Done():
		return q.last(ctx, verb, wc)
	case <-q.ended:
		return 0, kindCQ.closed(verb)
	}
	defer func() { <-q.baton }()
	q.waiters.Add(1)
	defer q.waiters.Add(-1)
	for {
		select { // what an earlier arming left
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

// last is the end of a wait whose context has ended: completions may have come since the queue was looked at.
func (q *CQ) last(ctx context.Context, verb string, wc []ci.WC) (int, error) {
	if n, err := q.Poll(wc); n != 0 || err != nil {
		return n, q.unlessEnded(verb, err)
	}
	return 0, ctx.Err()
}

// unlessEnded says ErrClosed where the driver's own answer would be that the CQ is gone.
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

// PollMode is how completions are waited for.
type PollMode uint8

const (
	PollEvent  PollMode = iota // sleep until the CQ calls back: no processor time when idle
	PollBusy                   // poll without end: lowest latency, one processor
	PollHybrid                 // poll for Spin after the last completion, then sleep
)

// Poller consumes the completions of a CQ in one of the modes. All of them find every completion.
type Poller struct {
	CQ   *CQ
	Mode PollMode
	Spin time.Duration // PollHybrid; 0: 20 microseconds
}

// spinsPerLook is how many empty polls there are between two looks at the clock and the context, which cost more than a poll.
const spinsPerLook = 64

// Next waits for completions as Mode says. Otherwise it is CQ.Wait.
func (p Poller) Next(ctx context.Context, wc []ci.WC) (int, error) { return p.next(ctx, wc, nil) }

// next is Next. It also returns, with no completions and no error, after it has taken a token from kick.
func (p Poller) next(ctx context.Context, wc []ci.WC, kick <-chan struct{}) (int, error) {
	const verb = "Poller.Next"
	q := p.CQ
	if p.Mode == PollEvent {
		return q.wait(ctx, wc, kick)
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
	end := clock.Now() + spin
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
		case <-kick:
			return 0, nil
		default:
		}
		if p.Mode == PollHybrid && clock.Now() >= end {
			return q.sleep(ctx, verb, wc, kick)
		}
	}
}
