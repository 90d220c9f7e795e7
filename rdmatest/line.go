package rdmatest

import (
	"bytes"
	"cmp"
	"slices"
	"sync"
	"time"

	"ciddk/clock"
	"ciddk/rvt"
)

// A line is the port of a host, with a cable of its own length. It makes the order of packets independent of the order
// in which goroutines run:
//
//   - Every packet that the host sends takes the same time to the network. The times of the hosts differ, so that
//     packets which two hosts send at one instant reach a third one at two instants.
//   - Packets that the host sends at one instant leave in order of their destinations, those to one queue pair in the
//     order in which they were sent.
type line struct {
	inner
	clock clock.Clock
	delay time.Duration

	mu      sync.Mutex
	timer   clock.Timer
	waiting []instant // oldest first; the timer is set for the first one
	closed  bool
}

type inner = rvt.Port

// An instant holds what the host has sent at one time.
type instant struct {
	at   time.Duration // when it leaves
	pkts []rvt.Packet
}

func newLine(port rvt.Port, c clock.Clock, delay time.Duration) *line {
	return &line{inner: port, clock: c, delay: delay}
}

// Unwrap returns the inner port, for ci.As.
func (l *line) Unwrap() any { return l.inner }

// Send keeps a copy of the packets.
func (l *line) Send(pkts []rvt.Packet) {
	list := slices.Clone(pkts)
	for i := range list {
		p := &list[i]
		p.GRH = slices.Clone(p.GRH)
		p.Payload = [][]byte{slices.Concat(p.Payload...)}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	at := l.clock.Elapsed() + l.delay
	if last := len(l.waiting) - 1; last >= 0 && l.waiting[last].at == at {
		l.waiting[last].pkts = append(l.waiting[last].pkts, list...)
		return
	}
	l.waiting = append(l.waiting, instant{at: at, pkts: list})
	if len(l.waiting) == 1 {
		l.set()
	}
}

// set sets the timer for the first instant. The caller holds l.mu.
func (l *line) set() {
	d := l.waiting[0].at - l.clock.Elapsed()
	if l.timer == nil {
		l.timer = l.clock.AfterFunc(d, l.expire)
	} else {
		l.timer.Reset(d)
	}
}

// expire sends the packets whose time has come. The port does not call back while l.mu is held: its network delivers
// later.
func (l *line) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.waiting) > 0 && l.waiting[0].at <= l.clock.Elapsed() {
		l.next()
	}
	if len(l.waiting) > 0 {
		l.set()
	}
}

// next sends the packets of the first instant. The caller holds l.mu.
func (l *line) next() {
	list := l.waiting[0].pkts
	slices.SortStableFunc(list, func(a, b rvt.Packet) int {
		to, other := a.Route.Peer().GID, b.Route.Peer().GID
		return cmp.Or(bytes.Compare(to[:], other[:]), cmp.Compare(a.DestQP, b.DestQP), cmp.Compare(a.SrcQP, b.SrcQP))
	})
	l.inner.Send(list)
	l.waiting[0] = instant{}
	l.waiting = l.waiting[1:]
}

// Close sends what waits, and closes the inner port.
func (l *line) Close() error {
	l.mu.Lock()
	l.closed = true
	if l.timer != nil {
		l.timer.Stop()
	}
	for len(l.waiting) > 0 {
		l.next()
	}
	l.mu.Unlock()
	return l.inner.Close()
}
