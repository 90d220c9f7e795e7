package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ciddk/ci"
	"ciddk/examples/perftest/exchange"
)

// recvMark is set in the ID of a receive. The other bits are the number of the lane and, for a send, the number of
// requests of the lane up to it.
const (
	recvMark  = 1 << 63
	laneShift = 40
)

// A bandwidth is one run of a bandwidth test, with messages of one size, sent, received or both.
type bandwidth struct {
	s             *session
	size          int
	sends, recvs  bool
	iters         int // of each lane; no limit with -D
	sent, done    []int
	posted        []int // receives
	returned      []int // receives that have completed and were not posted again
	totalSent     int
	totalDone     int
	totalReceived int
	started       bool // the server sends after the client's first message
	begin, end    time.Time
	phases        phases
	counted       int             // within the phases
	postedAt      []time.Duration // since begin; nil if the peak is not computed
	doneAt        []time.Duration
	wrs           []ci.SendWR
}

// runBandwidth carries out a run.
func (s *session) runBandwidth(ctx context.Context, size int, sends, recvs bool) (exchange.Report, error) {
	q := len(s.lanes)
	b := &bandwidth{
		s: s, size: size, sends: sends, recvs: recvs, iters: s.o.Iters, sent: make([]int, q), done: make([]int,
			q), posted: make([]int, q),
		returned: make([]int, q), wrs: make([]ci.SendWR, s.o.PostList), started: s.o.client() || !recvs,
	}
	if recvs {
		for i := range b.posted {
			b.posted[i] = s.o.RxDepth
		}
	}
	if sends && !s.o.NoPeak {
		b.postedAt, b.doneAt = make([]time.Duration, s.o.Iters*q), make([]time.Duration, s.o.Iters*q)
	}
	for i := range b.wrs {
		b.wrs[i] = s.request(size)
	}
	ctx, stop := s.watch(ctx, false)
	defer stop()
	if b.started {
		b.begin = time.Now()
		b.phases = s.o.phasesFrom(b.begin)
	}
	err := b.run(ctx)
	if recvs && s.o.Duration == 0 && err == nil {
		s.lost += b.iters*q - b.totalReceived
	}
	return b.report(), err
}

// request returns the part of a request that is the same in the whole run.
func (s *session) request(size int) ci.SendWR {
	wr := ci.SendWR{SGL: make([]ci.SGE, 1)}
	switch s.o.Test.verb {
	case send:
		wr.Op = ci.OpSend
	case write:
		wr.Op = ci.OpWrite
	case read:
		wr.Op = ci.OpRead
	case atomic:
		wr.Op, wr.Atomic = ci.OpFetchAdd, ci.Atomic{Compare: 1}
		if s.o.Atomic == "CMP_AND_SWAP" {
			wr.Op, wr.Atomic = ci.OpCompareSwap, ci.Atomic{Compare: 0, Swap: 1}
		}
	}
	if s.inline(size) {
		wr.SGL, wr.Inline = nil, make([]byte, size)
	}
	return wr
}

// inline reports whether messages of a size are posted inline.
func (s *session) inline(size int) bool {
	return size <= s.o.Inline && (s.o.Test.verb == send || s.o.Test.verb == write)
}

// address fills in the part of a request that depends on the lane.
func (s *session) address(wr *ci.SendWR, l *lane, size int) {
	if wr.Inline == nil {
		wr.SGL[0] = s.source.SGE(l.sendOff, uint32(size))
	}
	wr.Remote = ci.Remote{Addr: l.remote.VAddr, RKey: l.remote.RKey}
	wr.To = l.to
}

// run posts and polls until the run ends.
func (b *bandwidth) run(ctx context.Context) error {
	for !b.finished() {
		if b.sends && b.started {
			if err := b.post(); err != nil {
				return err
			}
		}
		n, err := b.next(ctx)
		if err != nil || n == 0 {
			return err
		}
		now := time.Now()
		for _, wc := range b.s.wcs[:n] {
			if err := b.complete(wc, now); err != nil {
				return err
			}
		}
		b.end = now
	}
	return nil
}

// finished reports whether all messages are complete. With -D only the time ends a run.
func (b *bandwidth) finished() bool {
	if b.s.o.Duration > 0 {
		return b.started && !time.Now().Before(b.phases.over)
	}
	total := b.iters * len(b.s.lanes)
	return (!b.sends || b.totalDone == total) && (!b.recvs || b.totalReceived == total)
}

// next waits for completions. It returns 0 and no error at the end of the run: when the
// time is over, or when messages were lost and the peer has gone on.
func (b *bandwidth) next(ctx context.Context) (int, error) {
	if n, err := b.s.poll(); n > 0 || err != nil {
		return n, err
	}
	for {
		wait, cancel := ctx, context.CancelFunc(func() {})
		switch {
		case b.s.o.Duration > 0 && b.started:
			wait, cancel = context.WithDeadline(ctx, b.phases.over)
		case b.s.o.Duration == 0 && b.recvs:
			wait, cancel = context.WithTimeout(ctx, lossPause)
		}
		n, err := b.s.next(wait, b.s.wcs)
		cancel()
		switch {
		case err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded):
			return n, err
		case b.s.o.Duration > 0:
			return 0, nil
		case b.totalDone != b.totalSent || !b.s.talk.Link.Pending(): // otherwise the peer is at the next step
		case b.s.o.Service == service(ci.RC):
			return 0, fmt.Errorf("the peer has finished, and %d of %d messages have arrived: give both sides the "+
				"same -n", b.totalReceived, b.iters*len(b.s.lanes))
		default:
			return 0, nil
		}
	}
}

// lossPause is the time without a message after which the missing messages of a finished peer are lost.
const lossPause = 500 * time.Millisecond

// post fills the send queues.
func (b *bandwidth) post() error {
	o, list := b.s.o, b.s.o.PostList
	for i, l := range b.s.lanes {
		for (o.Duration > 0 || b.sent[i] < b.iters) && b.sent[i]-b.done[i]+list <= o.TxDepth {
			for k := range b.wrs {
				wr := &b.wrs[k]
				count := b.sent[i] + k + 1
				wr.ID = uint64(i)<<laneShift | uint64(count)&(1<<laneShift-1)
				wr.Flags = 0
				if count%o.CQMod == 0 || (o.Duration == 0 && count == b.iters) {
					wr.Flags = ci.SendSignaled
				}
				b.s.address(wr, l, b.size)
			}
			if b.postedAt != nil {
				now := time.Since(b.begin)
				for k := range list {
					b.postedAt[b.totalSent+k] = now
				}
			}
			if _, err := l.qp.PostSend(b.wrs); err != nil {
				return fmt.Errorf("posting message %d of lane %d: %w", b.sent[i]+1, i, err)
			}
			b.sent[i] += list
			b.totalSent += list
		}
	}
	return nil
}

// complete handles a completion.
func (b *bandwidth) complete(wc ci.WC, now time.Time) error {
	if wc.Status != ci.WCSuccess {
		return fmt.Errorf("%d sent, %d received: %w", b.totalDone, b.totalReceived, wc.Err())
	}
	if wc.ID&recvMark != 0 {
		return b.receive(wc, now)
	}
	i, count := int(wc.ID>>laneShift), int(wc.ID&(1<<laneShift-1))
	n := count - b.done[i]
	b.done[i] = count
	b.totalDone += n
	if b.doneAt != nil {
		b.doneAt[b.totalDone-1] = now.Sub(b.begin)
	}
	if b.phases.measured(now) {
		b.counted += n
	}
	return nil
}

// receive handles the completion of a receive, and posts receives again.
func (b *bandwidth) receive(wc ci.WC, now time.Time) error {
	o, i := b.s.o, int(wc.ID&^recvMark)
	if err := b.s.checkLength(wc, b.size); err != nil {
		return err
	}
	if !b.started || (b.totalReceived == 0 && !o.client()) {
		b.started, b.begin = true, now
		b.phases = o.phasesFrom(now)
	}
	b.totalReceived++
	if b.phases.measured(now) {
		b.counted++
	}
	b.returned[i]++
	batch := min(repostBatch, o.RxDepth)
	if b.returned[i] < batch && (o.Duration > 0 || b.posted[i]+batch <= b.iters) {
		return nil
	}
	n := b.returned[i]
	if o.Duration == 0 {
		n = min(n, b.iters-b.posted[i])
	}
	b.posted[i] += n
	b.returned[i] = 0
	return b.s.postRecvs(i, n, b.s.recvLen(b.size))
}

// repostBatch is the number of receives that are posted at a time.
const repostBatch = 16

// report computes the result.
func (b *bandwidth) report() exchange.Report {
	o := b.s.o
	iters, seconds := b.totalReceived, b.end.Sub(b.begin).Seconds()
	if b.sends {
		iters = b.totalDone
	}
	if o.Duration > 0 {
		iters, seconds = b.counted, b.phases.seconds()
	}
	unit := float64(1 << 20)
	if o.Gbits {
		unit = 1e9 / 8
	}
	r := exchange.Report{Size: uint64(b.size), Iters: uint64(iters)}
	if seconds > 0 {
		r.Average = float64(b.size) * float64(iters) / unit / seconds
		r.Rate = float64(iters) / 1e6 / seconds
	}
	if d := shortest(b.postedAt[:min(b.totalDone, len(b.postedAt))], b.doneAt); d > 0 {
		r.Peak = float64(b.size) / unit / d
	}
	return r
}

// shortest returns the shortest time per message of all sequences of messages, from posting the first to completing the
// last. Times are since the begin of the run. A message whose completion was reported together with a later one has no
// time of completion (0).
func shortest(posted, done []time.Duration) float64 {
	var least float64
	for i := range posted {
		for j := i; j < len(done); j++ {
			if done[j] == 0 {
				continue
			}
			if d := float64(done[j]-posted[i]) / float64(j-i+1); d > 0 && (least == 0 || d < least) {
				least = d
			}
		}
	}
	return least / float64(time.Second)
}
