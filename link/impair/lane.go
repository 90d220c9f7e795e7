package impair

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"ciddk/clock"
)

// A Handler is what a Lane needs to handle packets of the form T. Its owner implements it. Decide and Decided are
// called with a lock of the lane held.
type Handler[T any] interface {
	// Decide returns the verdict on a packet; Chance leaves it to the model.
	Decide(*T) Verdict
	// Copy returns a second packet, for a packet that is sent twice.
	Copy(T) T
	// Keep returns a packet that outlives the call that it came with.
	Keep(T) T
	// Flip flips one bit of a packet; bit is taken modulo their number. It returns false if that ends the packet.
	Flip(p *T, bit uint32) bool
	// Decided reports the verdict on each packet. lost reports that the packet ends here.
	Decided(p *T, v Verdict, lost bool)
	// Emit passes packets on. late reports that a timer has released them. wait and polled are those of Take.
	Emit(list []T, late, wait, polled bool)
}

// A Lane applies a Model to one direction of packets. Its choices depend on its random source and on the order of
// packets alone.
type Lane[T any] struct {
	handler Handler[T]
	clock   clock.Clock
	model   Model

	mu      sync.Mutex
	rnd     *rand.Rand
	waiting []*held[T] // reordered, oldest first
}

// held is a packet that is held back.
type held[T any] struct {
	p       T
	reorder bool // in waiting, until released
	after   int  // packets that must pass first; under Lane.mu
	timer   clock.Timer
}

// NewLane returns a lane that uses rnd from then on.
func NewLane[T any](h Handler[T], c clock.Clock, m Model, rnd *rand.Rand) *Lane[T] {
	if m.MaxDelay <= 0 {
		m.MaxDelay = time.Millisecond
	}
	return &Lane[T]{handler: h, clock: c, model: m, rnd: rnd}
}

// Take decides on packets, and passes on at once those that are not held.
func (l *Lane[T]) Take(list []T, wait, polled bool) {
	out := make([]T, 0, len(list))
	l.mu.Lock()
	for i := range list {
		out = l.decide(list[i], out)
	}
	l.mu.Unlock()
	if len(out) > 0 {
		l.handler.Emit(out, false, wait, polled)
	}
}

// decide handles one packet. It draws the same numbers whatever the verdict is, so that a seed means the same for every
// packet.
func (l *Lane[T]) decide(p T, out []T) []T {
	chance, span, bit := l.rnd.Float64(), l.rnd.Float64(), l.rnd.Uint32()
	v := l.handler.Decide(&p)
	switch {
	case v == Chance:
		v = l.model.choose(chance)
	case v > Corrupt:
		v = Pass
	}
	if v == Corrupt {
		lost := !l.handler.Flip(&p, bit)
		l.handler.Decided(&p, v, lost)
		if lost {
			return out
		}
		return l.overtaken(append(out, p))
	}
	l.handler.Decided(&p, v, v == Drop)
	switch v {
	case Drop:
		return out
	case Delay:
		l.hold(p, 0, time.Duration(span*float64(l.model.MaxDelay)))
		return out
	case Reorder: // not for MaxDelay exactly, after which its sender may send again: the order would be a race
		l.hold(p, 1+int(bit%3), time.Duration((1-span/2)*float64(l.model.MaxDelay)))
		return out
	case Duplicate:
		out = append(out, p, l.handler.Copy(p))
	default:
		out = append(out, p)
	}
	return l.overtaken(out)
}

// overtaken counts a packet that has passed for those in waiting, and releases the ones that have been overtaken by
// enough. The caller holds l.mu.
func (l *Lane[T]) overtaken(out []T) []T {
	keep := l.waiting[:0]
	for _, h := range l.waiting {
		if h.after--; h.after > 0 {
			keep = append(keep, h)
			continue
		}
		h.timer.Stop()
		out = append(out, h.p)
	}
	clear(l.waiting[len(keep):])
	l.waiting = keep
	return out
}

// hold keeps a packet for d or, with after > 0, until so many packets have passed if that is earlier. The caller holds
// l.mu.
func (l *Lane[T]) hold(p T, after int, d time.Duration) {
	h := &held[T]{p: l.handler.Keep(p), reorder: after > 0, after: after}
	if after > 0 {
		l.waiting = append(l.waiting, h)
	}
	h.timer = l.clock.AfterFunc(d, func() { l.release(h) })
}

// release is the timer function of a held packet. Of release and overtaken, the one that takes the packet out of
// waiting passes it on.
func (l *Lane[T]) release(h *held[T]) {
	if h.reorder {
		l.mu.Lock()
		i := slices.Index(l.waiting, h)
		if i >= 0 {
			l.waiting = slices.Delete(l.waiting, i, i+1)
		}
		l.mu.Unlock()
		if i < 0 {
			return
		}
	}
	l.handler.Emit([]T{h.p}, true, true, false)
}

// Close drops reordered packets. Delayed packets are passed to Emit when their time comes.
func (l *Lane[T]) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.waiting {
		h.timer.Stop()
	}
	l.waiting = nil
}
