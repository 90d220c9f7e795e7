package sim

import (
	"math"
	"sync/atomic"
	"time"
)

// Consumers that poll drive the network: they deliver what has arrived. Without them a timer does, which wakes a thread
// for each datagram. On the machine's clock that may take a millisecond, the shortest sleep of the Go runtime in
// epoll_wait. While consumers drive, the timer only stands by.

const (
	// driveStep is how long the timer waits while consumers drive.
	driveStep = time.Millisecond
	// busyDrives is the number of drives in a driveStep that make the timer stand by. A consumer that waits for events
	// polls a few times for each.
	busyDrives = 64

	never = math.MaxInt64
)

// drives is the part of a Network that consumers drive. The fields behind the atomic ones belong to Network.mu.
type drives struct {
	enabled bool         // not on a clock that the maker of the network moves
	next    atomic.Int64 // when the first datagram of the queue arrives; never: the queue is empty
	count   atomic.Uint64

	late  bool // the timer stands by
	busy  bool // there were busyDrives in the step before
	seen  uint64
	since time.Duration // the beginning of this step
}

// areBusy reports whether consumers drive the network all the time. The caller holds Network.mu.
func (d *drives) areBusy(now time.Duration) bool {
	if now-d.since >= driveStep {
		count := d.count.Load()
		d.busy = count-d.seen >= busyDrives && now-d.since < 2*driveStep
		d.seen, d.since = count, now
	}
	return d.busy
}

// drive delivers what has arrived, and returns the number of datagrams. It returns 0 while another goroutine delivers.
func (n *Network) drive() int {
	if !n.enabled {
		return 0
	}
	n.count.Add(1)
	at := n.next.Load()
	if at == never {
		return 0
	}
	now := n.c.Clock.Elapsed()
	if time.Duration(at) > now {
		return 0
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.pumping {
		return 0
	}
	return n.deliver(func() time.Duration { return now })
}

// attend sets the timer for the first datagram, for a consumer that stops driving.
func (n *Network) attend() {
	if !n.enabled {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.busy, n.seen, n.since = false, n.count.Load(), n.c.Clock.Elapsed()
	if n.late {
		n.late, n.set = false, false
		n.arm()
	}
}

// Drive delivers what has arrived, for all ports of the network, unless NetworkConfig.Clock is set. It implements
// rvt.Driver.
func (p *Port) Drive() int { return p.net.drive() }

// Attend implements rvt.Driver.
func (p *Port) Attend() { p.net.attend() }
