package frame

import (
	"net/netip"
	"sync"
	"time"

	"ciddk/clock"
)

// A resolver finds the MAC addresses of IP addresses, and answers for those of its port.
type resolver struct {
	port *Port

	mu    sync.Mutex
	table map[netip.Addr]*neighbor
}

// A neighbor is an IP address whose MAC address is known or wanted.
type neighbor struct {
	r    *resolver
	addr netip.Addr

	// The fields below are guarded by the resolver's mu.
	mac       [6]byte
	known     bool
	confirmed time.Duration // when mac was learned
	asked     time.Duration // when the last request was sent
	tries     int           // requests without an answer
	held      batch         // frames that wait, with the destination still zero
	timer     clock.Timer   // sends the next request; nil: none is due
}

const (
	maxNeighbors = 4096
	// maxHeld is the most bytes of frames that wait for one neighbor.
	maxHeld = 64 << 10
	// retryTime is the time between requests, and maxTries their number (RFC 4861, 10: RETRANS_TIMER,
	// MAX_MULTICAST_SOLICIT).
	retryTime = time.Second
	maxTries  = 3
	// staleTime is the age at which an address is requested again while it is used.
	staleTime = 30 * time.Second
)

func newResolver(p *Port) *resolver { return &resolver{port: p, table: map[netip.Addr]*neighbor{}} }

func (r *resolver) now() time.Duration { return r.port.context.Load().Clock.Elapsed() }

// neighbor returns the entry of an address, or nil if the table is full.
func (r *resolver) neighbor(a netip.Addr) *neighbor {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.table[a]
	if n == nil && len(r.table) < maxNeighbors {
		n = &neighbor{r: r, addr: a}
		r.table[a] = n
	}
	return n
}

// use returns the MAC address for a frame. ready is false if it is not known; hold then keeps the frame.
func (n *neighbor) use() (mac [6]byte, ready bool) {
	now := n.r.now()
	n.r.mu.Lock()
	mac, ready = n.mac, n.known
	refresh := ready && now-n.confirmed > staleTime && now-n.asked > retryTime
	if refresh {
		n.asked = now
	}
	n.r.mu.Unlock()
	if refresh {
		n.r.request(n.addr)
	}
	return mac, ready
}

// hold keeps frames until the neighbor is known, and requests its address.
func (r *resolver) hold(n *neighbor, frames [][]byte) {
	r.mu.Lock()
	if n.known { // since use
		r.mu.Unlock()
		r.release(n.mac, frames)
		return
	}
	for i, f := range frames {
		if len(n.held.bytes)+len(f) > maxHeld {
			r.port.stats.unresolved.Add(uint64(len(frames) - i))
			break
		}
		n.held.add(f)
	}
	first := n.timer == nil
	if first {
		n.tries, n.asked = 1, r.now()
		n.timer = r.port.context.Load().Clock.AfterFunc(retryTime, func() { r.retry(n) })
	}
	r.mu.Unlock()
	if first {
		r.request(n.addr)
	}
}

// retry sends the next request, or drops what waits.
func (r *resolver) retry(n *neighbor) {
	r.mu.Lock()
	again := !n.known && n.timer != nil && n.tries < maxTries && !r.port.isClosed()
	if again {
		n.tries++
		n.timer.Reset(retryTime)
	} else {
		r.port.stats.unresolved.Add(uint64(len(n.held.ends)))
		n.held.reset()
		n.timer = nil
	}
	r.mu.Unlock()
	if again {
		r.request(n.addr)
	}
}

// learn records the MAC address of a neighbor that the port uses, and sends what waits for it.
func (r *resolver) learn(a netip.Addr, mac [6]byte) {
	if mac[0]&1 != 0 || mac == ([6]byte{}) {
		return
	}
	r.mu.Lock()
	n := r.table[a]
	if n == nil {
		r.mu.Unlock()
		return
	}
	n.mac, n.known, n.confirmed = mac, true, r.now()
	if n.timer != nil {
		n.timer.Stop()
		n.timer = nil
	}
	held := n.held
	n.held = batch{}
	r.mu.Unlock()
	r.release(mac, held.frames())
}

// release sends frames to a destination.
func (r *resolver) release(mac [6]byte, frames [][]byte) {
	for _, f := range frames {
		copy(f, mac[:])
	}
	if len(frames) > 0 {
		r.port.emit(frames)
	}
}

// close stops the timers.
func (r *resolver) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.table {
		if n.timer != nil {
			n.timer.Stop()
			n.timer = nil
		}
		n.held.reset()
	}
}
