package rvt

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/clock"
)

// fakeClock is virtual time. Timers fire only in Advance, on the caller's goroutine.
type fakeClock = clock.Virtual

func newClock() *fakeClock { return clock.NewVirtual(time.Hour) }

// A fate is what happens to a packet on a simulated link.
type fate struct {
	copies int  // number of deliveries; 0: lost
	behind int  // the packet is delivered after this many later packets, or when no others are in flight
	late   bool // the packet is delivered after a timer has fired, or at the end
}

var onTime = fate{copies: 1}

// A sim makes a wireLink a queue that a test drains. Packets are delivered one at a time on the test's goroutine, so
// every order of events can be produced and repeated.
type sim struct {
	clock *fakeClock
	fate  func(n int, p *Packet) fate // nil: all on time; n counts from 0
	whole bool                        // trains are not split
	// shallow: payload is not copied, because the memory does not change
	shallow bool
	log     func(from ci.LID, p *Packet)

	mu    sync.Mutex
	n     int
	queue []inFlight
	held  []inFlight
	late  []inFlight
}

type inFlight struct {
	to     *linkPort
	p      Packet
	behind int
}

func (s *sim) add(from ci.LID, to *linkPort, pk *Packet) {
	if s.whole {
		s.addOne(from, to, *pk)
		return
	}
	for k := range pk.N {
		s.addOne(from, to, cut(pk, k))
	}
}

// own returns a deep copy of p.
func own(p *Packet) Packet {
	c := *p
	var all []byte
	for _, s := range p.Payload {
		all = append(all, s...)
	}
	c.Payload = nil
	if c.Len > 0 && len(all) > 0 {
		c.Payload = [][]byte{all[:c.Len]}
	}
	c.GRH = slices.Clone(p.GRH)
	return c
}

func (s *sim) addOne(from ci.LID, to *linkPort, p Packet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := onTime
	if s.fate != nil {
		f = s.fate(s.n, &p)
	}
	s.n++
	if s.log != nil {
		s.log(from, &p)
	}
	var free []inFlight
	for i := range s.held {
		if s.held[i].behind--; s.held[i].behind == 0 {
			free = append(free, s.held[i])
		}
	}
	s.held = slices.DeleteFunc(s.held, func(h inFlight) bool { return h.behind == 0 })
	for range f.copies {
		x := inFlight{to: to, p: p, behind: f.behind}
		if s.shallow {
			x.p.Payload = slices.Clone(p.Payload)
		} else {
			x.p = own(&p)
		}
		switch {
		case f.late:
			s.late = append(s.late, x)
		case f.behind > 0:
			s.held = append(s.held, x)
		default:
			s.queue = append(s.queue, x)
		}
	}
	s.queue = append(s.queue, free...)
}

// pump delivers until no packet is in flight.
func (s *sim) pump() {
	for {
		s.mu.Lock()
		if len(s.queue) == 0 {
			s.queue, s.held = s.held, nil
		}
		if len(s.queue) == 0 {
			s.mu.Unlock()
			return
		}
		x := s.queue[0]
		s.queue = s.queue[1:]
		s.mu.Unlock()
		x.to.rx.Deliver([]Packet{x.p}, true, false)
	}
}

// run pumps and advances time until done returns true, at most for the given virtual time.
func (s *sim) run(t testing.TB, limit time.Duration, done func() bool) {
	t.Helper()
	end := s.clock.Elapsed() + limit
	for {
		s.pump()
		if done() {
			return
		}
		require.Less(t, s.clock.Elapsed(), end, "not done in %v of virtual time", limit)
		if !s.clock.Step() {
			s.mu.Lock()
			stuck := len(s.late) == 0
			s.mu.Unlock()
			require.False(t, stuck, "not done, and neither packet nor timer is pending")
		}
		s.release()
	}
}

// release delivers late packets.
func (s *sim) release() {
	s.mu.Lock()
	s.queue = append(s.queue, s.late...)
	s.late = nil
	s.mu.Unlock()
}

// settle runs until no packet is in flight and no timer is set.
func (s *sim) settle(t testing.TB) {
	t.Helper()
	s.run(t, time.Hour, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.late) == 0 && s.clock.Pending() == 0
	})
}

// A simPair is two connected sides on a simulated link.
func simPair(t *testing.T, l *wireLink, typ ci.QPType, tweak func(*ci.QPAttr)) (a, b *side) {
	if l.mtu == 0 {
		l.mtu = ci.MTU4096
	}
	if l.sim == nil {
		l.sim = &sim{}
	}
	if l.sim.clock == nil {
		l.sim.clock = newClock()
	}
	a = newSide(t, l, 0xa, l.sim.clock, typ, nil)
	b = newSide(t, l, 0xb, l.sim.clock, typ, nil)
	a.connect(b, tweak)
	b.connect(a, tweak)
	return a, b
}
