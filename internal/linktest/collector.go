package linktest

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/internal/testenv"
	"ciddk/internal/train"
	"ciddk/rvt"
)

// A Collector is a Receiver that keeps copies of the packets that it receives.
type Collector struct {
	sync.Mutex               // protects the fields below
	changed    chan struct{} // closed and replaced at every change
	Pkts       []rvt.Packet
	Counts     map[rvt.Counter]int
	Events     []ci.EventType
	Polled     int
	Flushes    atomic.Int64
	Each       func() // called first for each delivery; set it before packets arrive
}

func NewCollector() *Collector {
	return &Collector{changed: make(chan struct{}), Counts: map[rvt.Counter]int{}}
}

func (c *Collector) note(f func()) {
	c.Lock()
	defer c.Unlock()
	f()
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *Collector) Deliver(pkts []rvt.Packet, _, polled bool) {
	if c.Each != nil {
		c.Each()
	}
	c.note(func() {
		for _, p := range pkts {
			p.Payload = [][]byte{bytes.Join(p.Payload, nil)}
			p.GRH = slices.Clone(p.GRH)
			c.Pkts = append(c.Pkts, p)
			if polled {
				c.Polled++
			}
		}
	})
}

func (c *Collector) FlushAcks() { c.Flushes.Add(1) }
func (c *Collector) PortEvent(t ci.EventType) {
	if t != 0 { // a change without an event
		c.note(func() { c.Events = append(c.Events, t) })
	}
}
func (c *Collector) Count(k rvt.Counter, n int) { c.note(func() { c.Counts[k] += n }) }
func (c *Collector) Counted(k rvt.Counter) (n int) {
	c.Lock()
	defer c.Unlock()
	return c.Counts[k]
}
func (c *Collector) Taken() (pkts []rvt.Packet) {
	c.Lock()
	defer c.Unlock()
	pkts, c.Pkts = c.Pkts, nil
	return pkts
}

// Wait returns when cond is true. It evaluates cond after every change.
func (c *Collector) Wait(t testing.TB, what string, cond func(c *Collector) bool) {
	t.Helper()
	deadline := time.After(testenv.Patience)
	for {
		c.Lock()
		ok, ch := cond(c), c.changed
		c.Unlock()
		if ok {
			return
		}
		select {
		case <-ch:
		case <-deadline:
			c.Lock()
			defer c.Unlock()
			require.FailNow(t, "timeout", "waiting for %s; got %d packets, counts %v", what, len(c.Pkts), c.Counts)
		}
	}
}

// Packets waits for n wire packets and removes them from the collector.
func (c *Collector) Packets(t testing.TB, n int) []rvt.Packet {
	t.Helper()
	c.Wait(t, fmt.Sprint(n, " packets"), func(c *Collector) bool { return train.Count(c.Pkts) >= n })
	return c.Taken()
}

// Start starts a port without an adapter, as port 1 of a node with the GUID 1.
func Start(p rvt.Port, r rvt.Receiver) error { return StartAt(p, r, clock.Real()) }

// StartAt is like Start, with a clock.
func StartAt(p rvt.Port, r rvt.Receiver, c clock.Clock) error {
	return p.Start(rvt.PortContext{Receiver: r, Clock: c, Num: 1, Node: rvt.Node{GUID: 1, SystemGUID: 1, NumPorts: 1}})
}
