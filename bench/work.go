package bench

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"ciddk/ci"
)

// The work that is measured. Each side of a workload is one call; what it needs is allocated when it is made, so that a round allocates
// nothing. Waiting is spinning on Poll, with a deadline.

// spinLimit bounds how long a workload waits for one completion.
const spinLimit = 20 * time.Second

// poller is a CQ and a place for its completions.
type poller struct {
	cq    ci.CQ
	yield bool // give way to other goroutines after each empty poll: the one waited for is in this process
	wcs   [batch]ci.WC
	idle  int
	to    time.Time
}

var errStalled = errors.New("no completion came in time")

// poll takes what is there, perhaps nothing.
func (p *poller) poll() ([]ci.WC, error) {
	n, err := p.cq.Poll(p.wcs[:])
	if err != nil {
		return nil, err
	}
	if n == 0 {
		// The clock is asked once in 2^16 empty polls; the first time sets the deadline.
		if p.idle++; p.idle&0xffff == 0 {
			switch {
			case p.to.IsZero():
				p.to = time.Now().Add(spinLimit)
			case time.Now().After(p.to):
				return nil, errStalled
			}
			runtime.Gosched()
		}
		if p.yield {
			runtime.Gosched()
		}
		return nil, nil
	}
	if p.idle > 0 {
		p.idle, p.to = 0, time.Time{}
	}
	for i := range p.wcs[:n] {
		if p.wcs[i].Status != ci.WCSuccess {
			return nil, fmt.Errorf("work request %d: %w", p.wcs[i].ID, p.wcs[i].Status)
		}
	}
	return p.wcs[:n], nil
}

// writer writes messages one-sidedly, a number of them outstanding.
type writer struct {
	poller
	qp  ci.QP
	wrs []ci.SendWR
}

func newWriter(s *side, to ci.Region, size, depth int) *writer {
	w := &writer{poller: poller{cq: s.cq}, qp: s.qp, wrs: make([]ci.SendWR, depth)}
	for i := range w.wrs {
		off := uint64(i * size % bufBytes)
		w.wrs[i] = ci.SendWR{ID: uint64(i), Op: ci.OpWrite, Flags: ci.SendSignaled, SGL: []ci.SGE{s.mem.SGE(off, uint32(size))}, Remote: to.Remote(off)}
	}
	return w
}

// run writes n messages.
func (w *writer) run(n int) error {
	for posted, done := 0, 0; done < n; {
		if k := min(len(w.wrs)-(posted-done), n-posted); k > 0 {
			if _, err := w.qp.PostSend(w.wrs[:k]); err != nil {
				return err
			}
			posted += k
		}
		wcs, err := w.poll()
		if err != nil {
			return err
		}
		done += len(wcs)
	}
	return nil
}

// sender sends small messages in batches, the last one of each signaled.
type sender struct {
	poller
	qp   ci.QP
	wrs  []ci.SendWR
	most int           // batches outstanding
	room *atomic.Int64 // messages that the receiver has posted buffers for since it was made; nil: not known here
	sent int64         // since it was made
}

func newSender(s *side, most int, room *atomic.Int64) *sender {
	x := &sender{poller: poller{cq: s.cq, yield: room != nil}, qp: s.qp, wrs: make([]ci.SendWR, batch), most: most, room: room}
	for i := range x.wrs {
		x.wrs[i] = ci.SendWR{ID: uint64(i), Op: ci.OpSend, SGL: []ci.SGE{s.mem.SGE(uint64(i*small), small)}}
	}
	x.wrs[batch-1].Flags = ci.SendSignaled
	return x
}

// run sends n messages, a multiple of a batch, and waits until the last one is acknowledged.
func (x *sender) run(n int) error {
	for posted, done := 0, 0; done < n; {
		for posted < n && posted-done < x.most*batch && (x.room == nil || x.sent+batch <= x.room.Load()) {
			if _, err := x.qp.PostSend(x.wrs); err != nil {
				return err
			}
			posted += batch
			x.sent += batch
		}
		wcs, err := x.poll()
		if err != nil {
			return err
		}
		done += batch * len(wcs)
	}
	return nil
}

// receiver takes small messages and posts their buffers again in batches.
type receiver struct {
	poller
	qp   ci.QP
	wrs  []ci.RecvWR
	free int // buffers to be posted again
	room *atomic.Int64
}

// newReceiver posts batches of buffers.
func newReceiver(s *side, batches int, room *atomic.Int64) (*receiver, error) {
	x := &receiver{poller: poller{cq: s.cq, yield: room != nil}, qp: s.qp, wrs: make([]ci.RecvWR, batch), room: room}
	for i := range x.wrs {
		x.wrs[i] = ci.RecvWR{ID: uint64(i), SGL: []ci.SGE{s.mem.SGE(uint64(i*small), small)}}
	}
	for range batches {
		if err := x.post(); err != nil {
			return nil, err
		}
	}
	return x, nil
}

func (x *receiver) post() error {
	if _, err := x.qp.PostRecv(x.wrs); err != nil {
		return err
	}
	if x.room != nil {
		x.room.Add(batch)
	}
	return nil
}

// run takes n messages.
func (x *receiver) run(n int) error {
	for got := 0; got < n; {
		wcs, err := x.poll()
		if err != nil {
			return err
		}
		got += len(wcs)
		if x.free += len(wcs); x.free >= batch {
			if err := x.post(); err != nil {
				return err
			}
			x.free -= batch
		}
	}
	return nil
}

// sleeper is the passive side of one-sided work: it waits, without polling, for a batch of messages that says that all is over.
type sleeper struct {
	*receiver
	wake chan struct{}
	late *time.Timer
}

func newSleeper(s *side) (*sleeper, error) {
	r, err := newReceiver(s, 1, nil)
	if err != nil {
		return nil, err
	}
	late := time.NewTimer(spinLimit)
	late.Stop()
	return &sleeper{r, s.wake, late}, nil
}

func (s *sleeper) run() error {
	s.late.Reset(spinLimit)
	defer s.late.Stop()
	if err := s.cq.Notify(ci.NotifyNext); err != nil {
		return err
	}
	select {
	case <-s.wake:
	case <-s.late.C:
		return errStalled
	}
	return s.receiver.run(batch)
}

// bouncer is one side of a ping-pong.
type bouncer struct {
	poller
	qp   ci.QP
	send []ci.SendWR
	recv []ci.RecvWR
	n    int // sends since it was made
}

// bounceRecvs are the receives that a bouncer has posted; every bounceSignal-th send is signaled.
const (
	bounceRecvs  = 8
	bounceSignal = 32
)

func newBouncer(s *side) (*bouncer, error) {
	b := &bouncer{poller: poller{cq: s.cq}, qp: s.qp, send: []ci.SendWR{{Op: ci.OpSend, SGL: []ci.SGE{s.mem.SGE(0, small)}}},
		recv: []ci.RecvWR{{SGL: []ci.SGE{s.mem.SGE(small, small)}}}}
	for range bounceRecvs {
		if _, err := b.qp.PostRecv(b.recv); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (b *bouncer) post() error {
	b.send[0].Flags = 0
	if b.n++; b.n%bounceSignal == 0 {
		b.send[0].Flags = ci.SendSignaled
	}
	_, err := b.qp.PostSend(b.send)
	return err
}

// run makes a number of round trips; first tells which side begins.
func (b *bouncer) run(rounds int, first bool) error {
	if first {
		if err := b.post(); err != nil {
			return err
		}
	}
	for i := 0; i < rounds; {
		wcs, err := b.poll()
		if err != nil {
			return err
		}
		for k := range wcs {
			if !wcs[k].Op.IsRecv() {
				continue
			}
			i++
			if !first || i < rounds {
				if err := b.post(); err != nil {
					return err
				}
			}
			if _, err := b.qp.PostRecv(b.recv); err != nil {
				return err
			}
		}
	}
	return nil
}

// measure runs work of so many operations and notes time and allocations of this process.
func measure(ops int, work func() error) (Sample, error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	err := work()
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	return Sample{Time: took, Ops: ops, Allocs: after.Mallocs - before.Mallocs}, err
}
