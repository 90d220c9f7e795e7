package reference

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/rvt"
)

// Frame is one packet as a capture shows it.
type Frame struct {
	Time time.Time
	HCA  ci.GUID // whose port sent or received it
	Port uint8   // 1-based
	Link ci.Link // of the port; it says what Data begins with
	Dir  Dir
	// Data is the whole packet: of an Ethernet port from the IP header, of an InfiniBand port from the LRH to the VCRC.
	Data []byte
	// Drop says why the packet went no further, by the name of a counter (see HCA.Counters); empty if it did, or if nobody knows.
	Drop string
}

// Tap collects the packets of ports that Capture made, in order: a packet is shown before whatever its arrival caused. One Tap may
// serve several ports of several HCAs. The zero value is ready, and off until Start.
type Tap struct {
	// Epoch is what the HCAs' clocks call zero, for runs in virtual time; the zero time is taken from the machine's clock when a
	// port is opened.
	Epoch time.Time

	on    atomic.Bool // read for every batch
	mu    sync.Mutex
	sink  func([]Frame)
	queue []*seen
	batch []Frame // of flush, used again
	armed bool
}

// seen is a packet on its way to the sink.
type seen struct {
	Frame
	key     packetKey
	since   time.Duration // when it was queued, by its port's clock
	pending bool          // its fate is not known yet; guarded by Tap.mu
}

const (
	// maxPending is how many packets wait behind one whose fate is unknown.
	maxPending = 4096
	// maxWait is how long: a hang must not keep the evidence back.
	maxWait = 100 * time.Millisecond
)

// Start hands packets to sink from now on, several at a time and never two calls at once. sink may keep the Data of a frame, not the
// slice of frames. It is called on the data path, so it should be quick, and must not call the HCA. Errors: a nil sink, or the tap is on.
func (t *Tap) Start(sink func([]Frame)) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case sink == nil:
		return errors.New("Tap.Start: sink is nil")
	case t.sink != nil:
		return errors.New("Tap.Start: the tap is on already: Stop it first")
	}
	t.sink = sink
	t.on.Store(true)
	return nil
}

// Stop hands over what is left, and returns when the sink does not run and will not run again. Idempotent.
func (t *Tap) Stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.on.Store(false)
	if t.sink != nil {
		t.flush(len(t.queue))
	}
	t.sink = nil
}

// add queues packets. Those that are pending hold up the queue until settle, or for maxWait.
func (t *Tap) add(clock clock.Clock, list []*seen) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sink == nil {
		return
	}
	now := clock.Now()
	for _, s := range list {
		s.since = now
	}
	t.queue = append(t.queue, list...)
	t.flush(len(t.queue) - maxPending)
	t.arm(clock, maxWait)
}

// arm sees to it that the queue is looked after. The caller holds t.mu.
func (t *Tap) arm(clock clock.Clock, d time.Duration) {
	if len(t.queue) > 0 && !t.armed {
		t.armed = true
		clock.AfterFunc(d, func() { t.overdue(clock) })
	}
}

// settle says that nothing more will be learnt of the packets.
func (t *Tap) settle(list []*seen) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range list {
		s.pending = false
	}
	if t.sink != nil {
		t.flush(0)
	}
}

// drop sets the reason of a packet that has none; false if it has one.
func (t *Tap) drop(s *seen, reason string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.Drop != "" {
		return false
	}
	s.Drop = reason
	return true
}

// overdue is the timer of the queue.
func (t *Tap) overdue(clock clock.Clock) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.armed = false
	if t.sink == nil {
		return
	}
	late := clock.Now() - maxWait
	n := 0
	for n < len(t.queue) && t.queue[n].since <= late {
		n++
	}
	if t.flush(n); len(t.queue) > 0 {
		t.arm(clock, t.queue[0].since-late)
	}
}

// flush passes on what waits for nothing, and the first n whatever they wait for. The caller holds t.mu.
func (t *Tap) flush(n int) {
	i := 0
	for i < len(t.queue) && (i < n || !t.queue[i].pending) {
		t.batch = append(t.batch, t.queue[i].Frame)
		i++
	}
	if i == 0 {
		return
	}
	t.queue = append(t.queue[:0], t.queue[i:]...)
	t.sink(t.batch)
	clear(t.batch)
	t.batch = t.batch[:0]
}

// engineView tells from the engine's counters what became of a packet that was delivered. There is one for each HCA.
type engineView struct {
	counters atomic.Pointer[func() map[string]uint64] // nil until the engine is there
	mu       sync.Mutex
	running  int
	begun    uint64
}

// delivery is one under way.
type delivery struct {
	before map[string]uint64
	alone  bool
	begun  uint64
}

// begin is called before a delivery.
func (v *engineView) begin() delivery {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.running++
	v.begun++
	return delivery{before: v.drops(), alone: v.running == 1, begun: v.begun}
}

// end is called after it, and names the reason for which packets were dropped meanwhile and how many were. alone says that nothing
// else was delivered at the same time, so that they were packets of this delivery.
func (v *engineView) end(d delivery) (reason string, n uint64, alone bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.running--
	after := v.drops()
	for _, c := range engineDrops {
		if k := after[c] - d.before[c]; k > n {
			reason, n = c, k
		}
	}
	return reason, n, d.alone && d.begun == v.begun
}

func (v *engineView) drops() map[string]uint64 {
	if f := v.counters.Load(); f != nil {
		return (*f)()
	}
	return nil
}

// engineDrops are the counters by which the engine tells why it did not act on a packet. Those of ports are not among them.
var engineDrops = func() (names []string) {
	for c := rvt.DropNoQP; c <= rvt.DropBusy; c++ {
		names = append(names, c.String())
	}
	return names
}()
