package main

import (
	"context"
	"fmt"
	"time"

	"ciddk/examples/perftest/exchange"
)

// grace is the time that packets of a peer may be in flight after it has left.
const grace = time.Second

// errStalled is the cause of a context that ended because there was no progress.
type errStalled struct{ after time.Duration }

func (e errStalled) Error() string {
	return fmt.Sprintf("nothing happened for %v: does the peer run the same test, with the same -c, -s, -n, -q and -b?",
		e.after)
}

// limit returns a context for a phase in which the sides exchange messages.
func (s *session) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, s.o.Timeout, errStalled{s.o.Timeout})
}

// watch returns a context for a phase in which data move. The context ends when there is no progress for the time of
// --timeout, and when the peer has left and no more packets arrive. Progress means completions of this side or, if it
// is passive and has none, packets received by the adapter.
func (s *session) watch(ctx context.Context, passive bool) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.watchProgress(ctx, cancel, passive)
	}()
	return ctx, func() {
		cancel(nil)
		<-done
	}
}

func (s *session) watchProgress(ctx context.Context, cancel context.CancelCauseFunc, passive bool) {
	progress := s.progress.Load
	if passive {
		progress = s.a.received
	}
	tick := time.NewTicker(min(s.o.Timeout, grace) / 4)
	defer tick.Stop()
	last, at := progress(), time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if p := progress(); p != last {
				last, at = p, now
				continue
			}
			select {
			case <-s.talk.Link.Done():
				if now.Sub(at) >= grace && !passive {
					cancel(exchange.ErrLeft)
					return
				}
			default:
			}
			if now.Sub(at) >= s.o.Timeout {
				cancel(errStalled{s.o.Timeout})
				return
			}
		}
	}
}

// phases divides a run of -D. The margins at its begin and end are not measured.
type phases struct {
	begin, end time.Time // of the measurement
	over       time.Time
}

func (o *options) phasesFrom(now time.Time) phases {
	margin, whole := time.Duration(o.Margin)*time.Second, time.Duration(o.Duration)*time.Second
	return phases{now.Add(margin), now.Add(whole - margin), now.Add(whole)}
}

// measured reports whether the present time belongs to the measurement.
func (p phases) measured(now time.Time) bool { return !now.Before(p.begin) && now.Before(p.end) }

// seconds returns the length of the measurement.
func (p phases) seconds() float64 { return p.end.Sub(p.begin).Seconds() }
