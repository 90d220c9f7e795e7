package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"ciddk/ci"
)

// A latency is one run of a latency test: messages of one size, one at a time.
type latency struct {
	s      *session
	size   int
	phases phases
	times  []time.Duration // when each message was posted
	count  int             // with -D: messages within the phases
	begin  time.Time
	wrs    []ci.SendWR
	recvd  int // messages received
}

// newLatency prepares a run.
func (s *session) newLatency(size int) *latency {
	l := &latency{s: s, size: size, begin: time.Now(), wrs: []ci.SendWR{s.request(size)}}
	if s.o.Duration == 0 {
		l.times = make([]time.Duration, 0, s.o.Iters)
	}
	l.phases = s.o.phasesFrom(l.begin)
	s.address(&l.wrs[0], s.lanes[0], size)
	l.wrs[0].Flags = ci.SendSignaled
	return l
}

// more reports whether message n, counted from 0, belongs to the run.
func (l *latency) more(n int) bool {
	if l.s.o.Duration > 0 {
		return time.Now().Before(l.phases.over)
	}
	return n < l.s.o.Iters
}

// post posts the next message, and records the time.
func (l *latency) post() error {
	now := time.Now()
	if l.times != nil {
		l.times = append(l.times, now.Sub(l.begin))
	} else if l.phases.measured(now) {
		l.count++
	}
	_, err := l.s.lanes[0].qp.PostSend(l.wrs)
	return err
}

// await waits until the given number of receives, and the outstanding send if there is one, have completed.
func (l *latency) await(ctx context.Context, sending bool, received int) error {
	for sending || l.recvd < received {
		n, err := l.s.next(ctx, l.s.wcs)
		if err != nil {
			return err
		}
		for _, wc := range l.s.wcs[:n] {
			if wc.Status != ci.WCSuccess {
				return fmt.Errorf("%d messages: %w", l.recvd, wc.Err())
			}
			if wc.ID&recvMark == 0 {
				sending = false
				continue
			}
			if err := l.s.checkLength(wc, l.size); err != nil {
				return err
			}
			l.recvd++
			if l.s.o.Duration > 0 || l.recvd+l.s.o.RxDepth <= l.s.o.Iters {
				if err := l.s.postRecvs(0, 1, l.s.recvLen(l.size)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// bounded runs f with a context that ends when there is no progress. With -D it ends when the time is over, which is no
// error.
func (l *latency) bounded(ctx context.Context, f func(context.Context) error) error {
	ctx, stop := l.s.watch(ctx, false)
	defer stop()
	run, cancel := ctx, context.CancelFunc(func() {})
	if l.s.o.Duration > 0 {
		run, cancel = context.WithDeadline(ctx, l.phases.over)
	}
	defer cancel()
	err := f(run)
	if l.s.o.Duration > 0 && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// runSend exchanges messages in turn; the client begins.
func (l *latency) runSend(ctx context.Context) error {
	return l.bounded(ctx, func(ctx context.Context) error {
		received := 0
		for n := 0; l.more(n); n++ {
			if !l.s.o.client() {
				received++
				if err := l.await(ctx, false, received); err != nil {
					return err
				}
			}
			if err := l.post(); err != nil {
				return err
			}
			if l.s.o.client() {
				received++
			}
			if err := l.await(ctx, true, received); err != nil {
				return err
			}
		}
		return nil
	})
}

// runOneSided sends requests that the peer's adapter executes.
func (l *latency) runOneSided(ctx context.Context) error {
	return l.bounded(ctx, func(ctx context.Context) error {
		for n := 0; l.more(n); n++ {
			if err := l.post(); err != nil {
				return err
			}
			if err := l.await(ctx, true, 0); err != nil {
				return err
			}
		}
		return nil
	})
}

// runWrite exchanges RDMA WRITEs in turn; the server begins. The last byte of each message is its number.
func (l *latency) runWrite(ctx context.Context) error {
	last := l.size - 1
	data := l.wrs[0].Inline
	if data == nil {
		data = l.s.sourceBytes[l.s.lanes[0].sendOff:]
	}
	return l.bounded(ctx, func(ctx context.Context) error {
		received := 0
		for n := 0; l.more(n); n++ {
			if l.s.o.client() || n > 0 {
				received++
				if err := l.awaitByte(ctx, last, byte(received)); err != nil {
					return err
				}
			}
			data[last] = byte(n + 1)
			if err := l.post(); err != nil {
				return err
			}
			if err := l.await(ctx, true, 0); err != nil {
				return err
			}
		}
		if l.s.o.client() || l.s.o.Duration > 0 {
			return nil
		}
		return l.awaitByte(ctx, last, byte(l.s.o.Iters))
	})
}

// awaitByte waits until the peer has written a value to a byte of this side's memory.
func (l *latency) awaitByte(ctx context.Context, off int, value byte) error {
	m, off := l.s.mailbox, off+int(l.s.lanes[0].recvOff)
	for seen := m.writes.Load(); m.at(off) != value; {
		if l.s.o.Events {
			select {
			case <-m.written:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			continue
		}
		for polls := 1; m.writes.Load() == seen; polls++ {
			// Polling an empty queue makes the adapter receive packets.
			if n, err := l.s.cq.Poll(l.s.wcs[:1]); err != nil {
				return err
			} else if n > 0 && l.s.wcs[0].Status != ci.WCSuccess {
				return l.s.wcs[0].Err()
			}
			if polls%64 == 0 && ctx.Err() != nil {
				return context.Cause(ctx)
			}
			runtime.Gosched()
		}
		seen = m.writes.Load()
	}
	l.s.progress.Add(1)
	return nil
}

// A latencyResult is the outcome of a run, in microseconds. With -D only the average is known.
type latencyResult struct {
	Size    int     `json:"bytes"`
	Iters   int     `json:"iterations"`
	Min     float64 `json:"t_min_usec,omitempty"`
	Max     float64 `json:"t_max_usec,omitempty"`
	Typical float64 `json:"t_typical_usec,omitempty"`
	Average float64 `json:"t_avg_usec"`
	Stdev   float64 `json:"t_stdev_usec,omitempty"`
	P99     float64 `json:"percentile_99_usec,omitempty"`
	P999    float64 `json:"percentile_99_9_usec,omitempty"`
	Rate    float64 `json:"transactions_per_second,omitempty"` // with -D
}

// outliers is the number of longest times that perftest ignores.
const outliers = 2

// result computes the result. The latency of messages in turn is half of the time between two messages of one side, as
// in perftest.
func (l *latency) result() latencyResult {
	trips := 2.0
	if l.s.o.Test.oneSided() {
		trips = 1
	}
	r := latencyResult{Size: l.size, Iters: len(l.times)}
	if l.s.o.Duration > 0 {
		r.Iters = l.count
		if seconds := l.phases.seconds(); l.count > 0 {
			r.Average = seconds * 1e6 / trips / float64(l.count)
			r.Rate = float64(l.count) / seconds
		}
		return r
	}
	d := make([]float64, 0, len(l.times))
	for i := 1; i < len(l.times); i++ {
		d = append(d, float64(l.times[i]-l.times[i-1])/1e3/trips)
	}
	slices.Sort(d)
	n := len(d) - outliers
	if n < 1 {
		return r
	}
	var sum, squares float64
	for _, x := range d[:n] {
		sum += x
	}
	r.Average = sum / float64(n)
	for _, x := range d[:n] {
		squares += (x - r.Average) * (x - r.Average)
	}
	at := func(share float64) float64 { return d[min(int(math.Ceil(share*float64(n))), n)] }
	r.Min, r.Max = d[0], d[n]
	r.Typical, r.Stdev = median(d[:n]), math.Sqrt(squares/float64(n))
	r.P99, r.P999 = at(0.99), at(0.999)
	return r
}

// median returns the median of sorted numbers.
func median(d []float64) float64 {
	if n := len(d); n%2 == 0 {
		return (d[n/2-1] + d[n/2]) / 2
	}
	return d[len(d)/2]
}
