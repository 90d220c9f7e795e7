package capture

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/rvt"
)

// A Frame is one packet of a capture.
type Frame struct {
	Time      time.Time
	HCA       ci.GUID // whose port sent or received it
	Port      uint8   // counted from 1
	Link      ci.Link // of the port; it determines what Data begins with
	Direction rvt.Direction
	// Data is the whole packet: of an Ethernet port from the IP header, of an InfiniBand port from the LRH to the VCRC.
	Data []byte
	// Drop is the reason why the packet was dropped, the name of a counter (see HCA.Counters). It is empty if the
	// packet was not dropped, or if the reason is not known.
	Drop string
}

// A Tap collects the packets of ports that New made, in order: a packet is shown before the effects of its arrival. One
// Tap may serve several ports of several HCAs. The zero value is ready, and off until Start.
type Tap struct {
	// Epoch is the time at which the HCAs' clocks are zero, for runs in virtual time. If it is zero, each port computes
	// it from the machine's clock at its start.
	Epoch time.Time

	on    atomic.Bool // read for every batch
	mu    sync.Mutex
	sink  func([]Frame)
	queue []*entry
	batch []Frame // of flush, used again
	armed bool
	drops map[ci.GUID]*dropWatch // by HCA
}

// entry is a packet on its way to the sink.
type entry struct {
	Frame
	key     packetKey
	since   time.Duration // when it was queued, by its port's clock
	pending bool          // whether it was dropped is not known yet; guarded by Tap.mu
}

const (
	// maxPending is the most packets that wait behind a pending one.
	maxPending = 4096
	// maxWait is the longest time that packets wait: a hang must not keep the evidence back.
	maxWait = 100 * time.Millisecond
)

// Start passes packets to sink from now on, several at a time and in one call at a time. sink may keep the Data of a
// frame, but not the slice of frames. It runs on the data path, so it should be quick, and must not call the HCA.
// Errors: a nil sink; the tap is on.
func (t *Tap) Start(sink func([]Frame)) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case sink == nil:
		return errors.New("capture: Tap.Start: sink is nil")
	case t.sink != nil:
		return errors.New("capture: Tap.Start: the tap is on already: Stop it first")
	}
	t.sink = sink
	t.on.Store(true)
	return nil
}

// Stop passes on what is left. The sink does not run when Stop returns, and does not run afterwards. Stop is
// idempotent.
func (t *Tap) Stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.on.Store(false)
	if t.sink != nil {
		t.flush(len(t.queue))
	}
	t.sink = nil
}

// add queues packets. Pending ones hold up the queue until settle, or for maxWait.
func (t *Tap) add(clock clock.Clock, list []*entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sink == nil {
		return
	}
	now := clock.Elapsed()
	for _, e := range list {
		e.since = now
	}
	t.queue = append(t.queue, list...)
	t.flush(len(t.queue) - maxPending)
	t.arm(clock, maxWait)
}

// watch returns the dropWatch of an HCA.
func (t *Tap) watch(c *rvt.PortContext) *dropWatch {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.drops[c.Node.GUID]
	if w == nil || c.Num == 1 { // a new HCA may have the GUID of one that was closed
		w = &dropWatch{counters: c.Counters}
		if t.drops == nil {
			t.drops = map[ci.GUID]*dropWatch{}
		}
		t.drops[c.Node.GUID] = w
	}
	return w
}

// arm sets the timer of the queue. The caller holds t.mu.
func (t *Tap) arm(clock clock.Clock, d time.Duration) {
	if len(t.queue) > 0 && !t.armed {
		t.armed = true
		clock.AfterFunc(d, func() { t.overdue(clock) })
	}
}

// settle ends the wait for packets.
func (t *Tap) settle(list []*entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range list {
		e.pending = false
	}
	if t.sink != nil {
		t.flush(0)
	}
}

// drop sets the reason of a packet that has none. It returns false if the packet has one.
func (t *Tap) drop(e *entry, reason string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.Drop != "" {
		return false
	}
	e.Drop = reason
	return true
}

// overdue is the timer function of the queue.
func (t *Tap) overdue(clock clock.Clock) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.armed = false
	if t.sink == nil {
		return
	}
	late := clock.Elapsed() - maxWait
	n := 0
	for n < len(t.queue) && t.queue[n].since <= late {
		n++
	}
	if t.flush(n); len(t.queue) > 0 {
		t.arm(clock, t.queue[0].since-late)
	}
}

// flush passes on the packets up to the first pending one, and the first n in any case. The caller holds t.mu.
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
