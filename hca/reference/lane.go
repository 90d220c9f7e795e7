package reference

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"ciddk/clock"
)

// Verdict is what becomes of a packet.
type Verdict uint8

// Verdicts. Chance leaves it to the probabilities, the others overrule them.
const (
	Chance Verdict = iota
	Pass
	Drop
	Duplicate // twice, one behind the other
	Reorder   // held back until one to three more packets have passed, or MaxDelay
	Delay     // held for a time up to MaxDelay
	Corrupt   // one bit flipped, of the packet as it would be on a wire
)

var verdictNames = [...]string{"chance", "passed", "dropped", "duplicated", "reordered", "delayed", "corrupted"}

func (v Verdict) String() string {
	if int(v) < len(verdictNames) {
		return verdictNames[v]
	}
	return "unknown verdict"
}

// Impairment holds probabilities, 0 to 1, for each packet; a train is so many packets. The first that comes true in this order counts.
type Impairment struct {
	Drop, Duplicate, Reorder, Delay, Corrupt float64
	// MaxDelay is the longest that a packet is held; 0 is 1 ms.
	MaxDelay time.Duration
}

// draw turns a number of [0, 1) into a verdict.
func (i *Impairment) draw(chance float64) Verdict {
	for _, c := range [...]struct {
		p float64
		v Verdict
	}{{i.Drop, Drop}, {i.Duplicate, Duplicate}, {i.Reorder, Reorder}, {i.Delay, Delay}, {i.Corrupt, Corrupt}} {
		if chance < c.p {
			return c.v
		}
		chance -= c.p
	}
	return Pass
}

// cargo is what a lane must know of the packets it is made of.
type cargo[T any] interface {
	// judge is asked first; Chance lets the dice decide.
	judge(*T) Verdict
	// again is a second packet that may go next to the first.
	again(T) T
	// keep is a packet that outlives the call it came with.
	keep(T) T
	// flip flips one bit, out of as many as there are; false if that is the end of the packet.
	flip(p *T, bit uint32) bool
	// decided is told of each packet's fate; gone says that it goes no further.
	decided(p *T, v Verdict, gone bool)
	// emit passes packets on; late ones come from a timer.
	emit(list []T, late, wait, polled bool)
}

// lane is one direction of a way that is worse than it could be. Its choices depend on its seed and on the order of packets alone.
type lane[T any] struct {
	cargo cargo[T]
	clock clock.Clock
	i     Impairment

	mu      sync.Mutex
	rnd     *rand.Rand
	waiting []*held[T] // reordered, oldest first
}

// held is a packet on its way.
type held[T any] struct {
	p       T
	reorder bool // in waiting, until released
	after   int  // packets that must pass first; under lane.mu
	timer   clock.Timer
}

func newLane[T any](c cargo[T], clock clock.Clock, i Impairment, rnd *rand.Rand) *lane[T] {
	if i.MaxDelay <= 0 {
		i.MaxDelay = time.Millisecond
	}
	return &lane[T]{cargo: c, clock: clock, i: i, rnd: rnd}
}

// take decides about packets, and passes on at once those that go on at once.
func (l *lane[T]) take(list []T, wait, polled bool) {
	out := make([]T, 0, len(list))
	l.mu.Lock()
	for i := range list {
		out = l.decide(list[i], out)
	}
	l.mu.Unlock()
	if len(out) > 0 {
		l.cargo.emit(out, false, wait, polled)
	}
}

// decide deals with one packet: it draws the same numbers whatever comes of them, so that a seed means the same for every packet.
func (l *lane[T]) decide(p T, out []T) []T {
	chance, span, bit := l.rnd.Float64(), l.rnd.Float64(), l.rnd.Uint32()
	v := l.cargo.judge(&p)
	switch {
	case v == Chance:
		v = l.i.draw(chance)
	case v > Corrupt:
		v = Pass
	}
	if v == Corrupt {
		gone := !l.cargo.flip(&p, bit)
		l.cargo.decided(&p, v, gone)
		if gone {
			return out
		}
		return l.overtaken(append(out, p))
	}
	l.cargo.decided(&p, v, v == Drop)
	switch v {
	case Drop:
		return out
	case Delay:
		l.hold(p, 0, time.Duration(span*float64(l.i.MaxDelay)))
		return out
	case Reorder:
		l.hold(p, 1+int(bit%3), l.i.MaxDelay)
		return out
	case Duplicate:
		out = append(out, p, l.cargo.again(p))
	default:
		out = append(out, p)
	}
	return l.overtaken(out)
}

// overtaken tells the waiting that a packet has passed, and lets go those for whom that was enough. The caller holds l.mu.
func (l *lane[T]) overtaken(out []T) []T {
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

// hold keeps a packet until a time, or with after > 0 until so many have passed if that is earlier. The caller holds l.mu.
func (l *lane[T]) hold(p T, after int, d time.Duration) {
	h := &held[T]{p: l.cargo.keep(p), reorder: after > 0, after: after}
	if after > 0 {
		l.waiting = append(l.waiting, h)
	}
	h.timer = l.clock.AfterFunc(d, func() { l.release(h) })
}

// release is the timer of a held packet. Of it and overtaken, the one that takes the packet out of waiting passes it on.
func (l *lane[T]) release(h *held[T]) {
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
	l.cargo.emit([]T{h.p}, true, true, false)
}

// forget lets go of what is reordered. What is delayed comes when its time comes.
func (l *lane[T]) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.waiting {
		h.timer.Stop()
	}
	l.waiting = nil
}
