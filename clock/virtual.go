package clock

import (
	"container/heap"
	"math"
	"sync"
	"time"
)

// Virtual is a clock that goes on when it is told to, for tests and simulations. What comes due is called one after the other on the
// goroutine that moves the clock, in order of time, and of setting where the time is the same: with nothing else running, a run
// is the same each time. Its methods may be called concurrently, from what it calls too; only moving it is for one goroutine.
type Virtual struct {
	mu   sync.Mutex
	now  time.Duration
	seq  uint64
	heap virtualHeap
}

// NewVirtual makes a clock that stands at now.
func NewVirtual(now time.Duration) *Virtual { return &Virtual{now: now} }

type virtualTimer struct {
	c   *Virtual
	f   func()
	at  time.Duration
	seq uint64
	pos int // in the heap; -1: not in it
}

// Now implements Clock.
func (c *Virtual) Now() time.Duration {
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

// Advance moves the clock by d, and calls what comes due on the way, at its time.
func (c *Virtual) Advance(d time.Duration) {
	end := c.Now() + d
	for c.step(end) {
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = max(c.now, end)
}

// Step moves the clock to the next timer and calls it; false if there is none.
func (c *Virtual) Step() bool { return c.step(math.MaxInt64) }

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

// Pending counts the timers that are set.
func (c *Virtual) Pending() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.heap)
}

// Next is when the next timer comes due; false if there is none.
func (c *Virtual) Next() (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.heap) == 0 {
		return 0, false
	}
	return c.heap[0].at, true
}

// virtualHeap is ordered by time, then by setting.
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
