package clock

import (
	"container/heap"
	"math"
	"sync"
	"time"
)

// Virtual is a Clock for tests and simulations whose time changes only in Advance and Step. They call the functions of
// expired timers one after the other, in order of time, and for equal times in the order in which the timers were set.
// A run without other goroutines is therefore reproducible. All methods may be called concurrently, and by the
// functions of timers, except that only one goroutine at a time may call Advance or Step.
type Virtual struct {
	mu   sync.Mutex
	now  time.Duration
	seq  uint64
	heap virtualHeap
}

// NewVirtual returns a clock whose time is now.
func NewVirtual(now time.Duration) *Virtual { return &Virtual{now: now} }

type virtualTimer struct {
	c   *Virtual
	f   func()
	at  time.Duration
	seq uint64
	pos int // index in the heap, or -1
}

// Elapsed implements Clock.
func (c *Virtual) Elapsed() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// AfterFunc implements Clock.
func (c *Virtual) AfterFunc(d time.Duration, f func()) Timer {
	t := &virtualTimer{c: c, f: f, pos: -1}
	t.Reset(d)
	return t
}

// Stop implements Timer.
func (t *virtualTimer) Stop() bool {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	return t.stop()
}

// stop is Stop with c.mu held.
func (t *virtualTimer) stop() bool {
	if t.pos < 0 {
		return false
	}
	heap.Remove(&t.c.heap, t.pos)
	return true
}

// Reset implements Timer.
func (t *virtualTimer) Reset(d time.Duration) bool {
	c := t.c
	c.mu.Lock()
	defer c.mu.Unlock()
	was := t.stop()
	c.seq++
	t.at, t.seq = c.now+max(d, 0), c.seq
	heap.Push(&c.heap, t)
	return was
}

// Advance increases the time by d. It calls the functions of the timers that expire within d; each one sees the time at
// which its timer expires.
func (c *Virtual) Advance(d time.Duration) {
	end := c.Elapsed() + d
	for c.step(end) {
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = max(c.now, end)
}

// Step advances the clock to the expiry of the next timer, and calls its function. It returns false if no timer is set.
func (c *Virtual) Step() bool { return c.step(math.MaxInt64) }

// step is Step for timers that expire until end.
func (c *Virtual) step(end time.Duration) bool {
	c.mu.Lock()
	if len(c.heap) == 0 || c.heap[0].at > end {
		c.mu.Unlock()
		return false
	}
	t := c.heap[0]
	heap.Pop(&c.heap)
	c.now = max(c.now, t.at)
	c.mu.Unlock()
	t.f()
	return true
}

// Next returns the time at which the next timer expires. ok is false if no timer is set.
func (c *Virtual) Next() (at time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.heap) == 0 {
		return 0, false
	}
	return c.heap[0].at, true
}

// Pending returns the number of timers that are set.
func (c *Virtual) Pending() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.heap)
}

// virtualHeap implements heap.Interface. It is ordered by time, then by the order in which timers were set.
type virtualHeap []*virtualTimer

func (h virtualHeap) Len() int { return len(h) }

func (h virtualHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}

func (h virtualHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].pos, h[j].pos = i, j
}

func (h *virtualHeap) Push(x any) {
	t := x.(*virtualTimer)
	t.pos = len(*h)
	*h = append(*h, t)
}

func (h *virtualHeap) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	t.pos = -1
	return t
}
