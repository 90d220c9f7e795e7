package bench

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"ciddk/ci"
)

// This file holds the measured work. Each side of a workload is one call. It allocates everything when it is created,
// so that a round allocates nothing. It waits by spinning on Poll, with a deadline.

// spinLimit bounds the wait of a workload for one completion. The passive side of one-sided work waits for the messages
// that end a round, so it waits for the whole round: on a busy machine, thousands of operations that take several time
// slices each.
const spinLimit = 4 * time.Minute

// A poller is a CQ with space for its completions.
type poller struct {
	cq    ci.CQ
	yield bool // yield after each empty poll, because the awaited goroutine is in this process
	wcs   [batch]ci.WC
	idle  int
	to    time.Time
}

var errStalled = errors.New("no completion came in time")

// poll returns the available completions, perhaps none.
func (p *poller) poll() ([]ci.WC, error) {
	n, err := p.cq.Poll(p.wcs[:])
	if err != nil {
		return nil, err
	}
	if n == 0 {
		// The time is read once in 2^16 empty polls. The first reading sets the deadline.
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
			return nil, fmt.Errorf("work request %d: %w", p.wcs[i].ID, p.wcs[i].Err())
		}
	}
	return p.wcs[:n], nil
}

// A flow describes the messages of a streamer.
type flow struct {
	op    ci.SendOp
	size  int       // bytes of a message
	to    ci.Region // region of the peer, where one side does all the work
	per   int       // every per-th request is signaled
	depth int       // maximum outstanding messages, a multiple of per
}

// A streamer sends, writes or reads messages, several of them outstanding.
type streamer struct {
	poller
	flow
	qp  ci.QP
	wrs []ci.SendWR
	// room is the number of messages for which the receiver has posted buffers since it was created; nil: unknown.
	room *atomic.Int64
	sent int64 // since the streamer was created
}

func newStreamer(s *side, f flow) *streamer {
	x := &streamer{poller: poller{cq: s.cq}, flow: f, qp: s.qp, wrs: make([]ci.SendWR, min(f.depth, batch))}
	for i := range x.wrs {
		off := uint64(i * f.size % bufBytes)
		x.wrs[i] = ci.SendWR{ID: uint64(i), Op: f.op, SGL: []ci.SGE{s.mem.SGE(off, uint32(f.size))}}
		if f.op != ci.OpSend {
			x.wrs[i].Remote = f.to.Remote(off)
		}
		if (i+1)%f.per == 0 {
			x.wrs[i].Flags = ci.SendSignaled
		}
	}
	return x
}

// run moves n messages, a multiple of per, and waits until the last one is acknowledged or read. A watch requires one
// message at a time.
func (x *streamer) run(n int, w *watch) error {
	for posted, done := 0, 0; done < n; {
		for posted < n {
			k := min(len(x.wrs), n-posted, x.depth-(posted-done))
			if x.room != nil {
				k = min(k, int(x.room.Load()-x.sent))
			}
			if k -= k % x.per; k <= 0 {
				break
			}
			w.start()
			if _, err := x.qp.PostSend(x.wrs[:k]); err != nil {
				return err
			}
			posted += k
			x.sent += int64(k)
		}
		wcs, err := x.poll()
		if err != nil {
			return err
		}
		if len(wcs) > 0 {
			w.stop(1)
		}
		done += x.per * len(wcs)
	}
	return nil
}

// A receiver receives messages and reposts their buffers in batches.
type receiver struct {
	poller
	qp   ci.QP
	wrs  []ci.RecvWR
	free int // buffers to repost
	room *atomic.Int64
}

// newReceiver posts batches of buffers of size bytes.
func newReceiver(s *side, size, batches int, room *atomic.Int64) (*receiver, error) {
	x := &receiver{poller: poller{cq: s.cq, yield: room != nil}, qp: s.qp, wrs: make([]ci.RecvWR, batch), room: room}
	for i := range x.wrs {
		x.wrs[i] = ci.RecvWR{ID: uint64(i), SGL: []ci.SGE{s.mem.SGE(uint64(i*size%bufBytes), uint32(size))}}
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

// run receives n messages.
func (x *receiver) run(n int) error {
	for got := 0; got < n; {
		k, err := x.take()
		if err != nil {
			return err
		}
		got += k
	}
	return nil
}

// take receives the available messages.
func (x *receiver) take() (int, error) {
	wcs, err := x.poll()
	if err != nil {
		return 0, err
	}
	if x.free += len(wcs); x.free >= batch {
		if err := x.post(); err != nil {
			return 0, err
		}
		x.free -= batch
	}
	return len(wcs), nil
}

// A sleeper is the passive side of one-sided work. Without polling, it waits for a batch of messages that ends the
// round.
type sleeper struct {
	*receiver
	wake chan struct{}
	late *time.Timer
}

func newSleeper(s *side) (*sleeper, error) {
	r, err := newReceiver(s, small, 1, nil)
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
	for got := 0; got < batch; {
		if err := s.cq.Notify(ci.NotifyNext); err != nil {
			return err
		}
		// Earlier completions do not raise an event.
		n, err := s.take()
		if err != nil {
			return err
		}
		if got += n; n > 0 {
			continue
		}
		select {
		case <-s.wake:
		case <-s.late.C:
			return errStalled
		}
	}
	return nil
}

// A bouncer is one side of a ping-pong.
type bouncer struct {
	poller
	qp    ci.QP
	send  []ci.SendWR
	recv  []ci.RecvWR
	flags ci.SendFlags // of each send
	n     int          // sends since the bouncer was created
}

// bounceRecvs is the number of receives that a bouncer has posted. Every bounceSignal-th send is signaled.
const (
	bounceRecvs  = 8
	bounceSignal = 32
)

// newBouncer returns a bouncer for SEND, or for RDMA WRITE with immediate, whose receives take no data.
func newBouncer(s *side, f flow) (*bouncer, error) {
	b := &bouncer{poller: poller{cq: s.cq}, qp: s.qp,
		send: []ci.SendWR{{Op: f.op, SGL: []ci.SGE{s.mem.SGE(0, uint32(f.size))}}},
		recv: []ci.RecvWR{{}}}
	if f.op == ci.OpSend {
		b.recv[0].SGL = []ci.SGE{s.mem.SGE(bufBytes/2, uint32(f.size))}
	} else {
		b.send[0].Remote, b.flags = f.to.Remote(bufBytes/2), ci.SendImmediate
	}
	for range bounceRecvs {
		if _, err := b.qp.PostRecv(b.recv); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// await receives one message.
func (b *bouncer) await() error {
	for {
		wcs, err := b.poll()
		if err != nil {
			return err
		}
		for k := range wcs {
			if wcs[k].Op.IsRecv() { // the other side sends the next message only after the answer to this one
				_, err := b.qp.PostRecv(b.recv)
				return err
			}
		}
	}
}

func (b *bouncer) post() error {
	b.send[0].Flags = b.flags
	if b.n++; b.n%bounceSignal == 0 {
		b.send[0].Flags |= ci.SendSignaled
	}
	_, err := b.qp.PostSend(b.send)
	return err
}

// run makes n round trips. first is set on the side that begins. The watch records half of each round trip.
func (b *bouncer) run(rounds int, first bool, w *watch) error {
	if first {
		w.start()
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
			w.stop(2)
			if !first || i < rounds {
				w.start()
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

// A watch records the duration of each operation. A nil watch records nothing, for rounds that are timed as a whole.
type watch struct {
	began time.Time
	times []time.Duration
}

func (w *watch) start() {
	if w != nil {
		w.began = time.Now()
	}
}

// stop records the time since start, divided by parts.
func (w *watch) stop(by time.Duration) {
	if w != nil {
		w.times = append(w.times, time.Since(w.began)/by)
	}
}

// percentile returns a percentile of the recorded times. It sorts them.
func (w *watch) percentile(p int) time.Duration {
	slices.Sort(w.times)
	return w.times[(len(w.times)-1)*p/100]
}

// measure performs ops operations and records time and allocations of this process.
func measure(ops int, work func() error) (Sample, error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	err := work()
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	return Sample{Time: took, Ops: ops, Allocs: after.Mallocs - before.Mallocs}, err
}
