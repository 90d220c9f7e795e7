package main

import (
	"context"
	"errors"
	"fmt"

	"ciddk/ci"
	"ciddk/examples/perftest/exchange"
)

// errLost reports that messages of an unreliable service did not arrive.
var errLost = errors.New("messages were lost, as UC and UD allow: the receiver was too slow, or had no posted " +
	"receives (-r)")

// sizes returns the message sizes of the test.
func (s *session) sizes() []int {
	if !s.o.All {
		return []int{s.o.Size}
	}
	largest := maxSize
	if s.o.Service == service(ci.UD) {
		largest = s.hello.MTU.Bytes()
	}
	var sizes []int
	for n := 2; n <= largest; n *= 2 {
		sizes = append(sizes, n)
	}
	return sizes
}

// measure runs the test and ends the exchange with the peer. The order of barriers is that of the perftest program of
// the test.
func (s *session) measure(ctx context.Context) error {
	var err error
	t, closing := s.o.Test, true
	switch {
	case t.latency && t.verb == send:
		err = s.measureSendLatency(ctx)
	case t.latency && t.verb == write:
		err, closing = s.measureWriteLatency(ctx), false
	case t.latency:
		err = s.measureOneSidedLatency(ctx)
	case t.verb == send:
		err = s.measureSend(ctx)
	case s.o.Both:
		err = s.measureBoth(ctx)
	default:
		err = s.measureOneSided(ctx)
	}
	if err == nil {
		err = s.part(ctx, closing)
	}
	if err == nil && s.lost > 0 {
		err = fmt.Errorf("%d %w", s.lost, errLost)
	}
	return err
}

// measureSend runs ib_send_bw. The receiver measures, too.
func (s *session) measureSend(ctx context.Context) error {
	for _, size := range s.sizes() {
		sends, recvs := s.o.sends(), s.o.receives()
		if recvs {
			if err := s.postAllRecvs(size); err != nil {
				return err
			}
		}
		if err := s.barrier(ctx); err != nil {
			return err
		}
		mine, err := s.runBandwidth(ctx, size, sends, recvs)
		if err != nil {
			return err
		}
		if s.o.Both && s.o.Duration == 0 {
			if mine, err = s.total(ctx, mine); err != nil {
				return err
			}
		}
		s.out.bandwidth(mine)
		if s.o.All {
			if err := s.barrier(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// measureBoth runs a one-sided test in both directions, which both sides measure.
func (s *session) measureBoth(ctx context.Context) error {
	for _, size := range s.sizes() {
		if err := s.barrier(ctx); err != nil {
			return err
		}
		mine, err := s.runBandwidth(ctx, size, true, false)
		if err != nil {
			return err
		}
		if s.o.All {
			if err := s.barrier(ctx); err != nil {
				return err
			}
		}
		if mine, err = s.total(ctx, mine); err != nil {
			return err
		}
		s.out.bandwidth(mine)
	}
	return nil
}

// measureOneSided runs a test that only the client measures. The server prints the client's result.
func (s *session) measureOneSided(ctx context.Context) error {
	var mine exchange.Report
	if s.o.client() {
		for _, size := range s.sizes() {
			var err error
			if mine, err = s.runBandwidth(ctx, size, true, false); err != nil {
				return err
			}
			s.out.bandwidth(mine)
		}
		if err := s.barrier(ctx); err != nil {
			return err
		}
	} else if err := s.idle(ctx); err != nil {
		return err
	}
	theirs, err := s.report(ctx, mine)
	if err != nil || s.o.client() {
		return err
	}
	s.out.bandwidth(theirs)
	return s.compare(theirs)
}

// idle waits at a barrier while the client measures.
func (s *session) idle(ctx context.Context) error {
	ctx, stop := s.watch(ctx, true)
	defer stop()
	return s.talk.Barrier(ctx, s.lanes[0].local, s.lanes[0].remote)
}

func (s *session) report(ctx context.Context, mine exchange.Report) (exchange.Report, error) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	return s.talk.Report(ctx, mine)
}

// compare returns an error if the client's settings differ from this server's.
func (s *session) compare(theirs exchange.Report) error {
	sizes := s.sizes()
	if last := sizes[len(sizes)-1]; theirs.Size != uint64(last) {
		return fmt.Errorf("the client measured messages of %d bytes, and this server has -s %d: give both sides the "+
			"same -s and -a", theirs.Size, last)
	}
	if want := uint64(s.o.Iters) * uint64(s.o.QPs); s.o.Duration == 0 && theirs.Iters != want {
		return fmt.Errorf("the client measured %d messages, and this server expects %d: give both sides the same -n, "+
			"-q and -D", theirs.Iters, want)
	}
	return nil
}

// total adds the results of both sides.
func (s *session) total(ctx context.Context, mine exchange.Report) (exchange.Report, error) {
	theirs, err := s.report(ctx, mine)
	if err != nil {
		return mine, err
	}
	mine.Peak += theirs.Peak
	mine.Average += theirs.Average
	mine.Rate += theirs.Rate
	if theirs.Size != mine.Size {
		return mine, fmt.Errorf("the peer measured messages of %d bytes, and this side of %d: give both sides the "+
			"same -s and -a", theirs.Size, mine.Size)
	}
	return mine, nil
}

// measureSendLatency runs ib_send_lat.
func (s *session) measureSendLatency(ctx context.Context) error {
	for _, size := range s.sizes() {
		if err := s.postAllRecvs(size); err != nil {
			return err
		}
		if err := s.barrier(ctx); err != nil {
			return err
		}
		l := s.newLatency(size)
		if err := l.runSend(ctx); err != nil {
			return err
		}
		s.out.latency(l.result())
	}
	return nil
}

// measureWriteLatency runs ib_write_lat, whose sides exchange no messages after they are connected.
func (s *session) measureWriteLatency(ctx context.Context) error {
	for _, size := range s.sizes() {
		l := s.newLatency(size)
		if err := l.runWrite(ctx); err != nil {
			return err
		}
		s.out.latency(l.result())
	}
	return nil
}

// measureOneSidedLatency runs ib_read_lat and ib_atomic_lat. The server waits in the last barrier.
func (s *session) measureOneSidedLatency(ctx context.Context) error {
	if !s.o.client() {
		return nil
	}
	for _, size := range s.sizes() {
		l := s.newLatency(size)
		if err := l.runOneSided(ctx); err != nil {
			return err
		}
		s.out.latency(l.result())
	}
	return nil
}

// postAllRecvs fills the receive queues.
func (s *session) postAllRecvs(size int) error {
	for i := range s.lanes {
		if err := s.postRecvs(i, s.o.RxDepth, s.recvLen(size)); err != nil {
			return err
		}
	}
	return nil
}
