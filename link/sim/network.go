package sim

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ciddk/clock"
	"ciddk/link/impair"
)

// NetworkConfig describes an IP network within the process. Its zero value is a network without faults on the machine's
// clock.
type NetworkConfig struct {
	// Clock is the network's source of time, and should be the HCAs'; nil is the machine's. On a virtual clock (package
	// clock) everything happens on the goroutine that moves it. With all of the HCAs' Config.Rand seeded, too, a run is
	// the same each time.
	Clock clock.Clock
	// Latency is how long every datagram takes; 0 is 1 us. What leaves together arrives together.
	Latency time.Duration
	// Impairment applies to each pair of addresses, in each direction by itself, and Seed determines its choices. The
	// choices depend on the seed, on the two addresses and on the order of the datagrams between them, and on nothing
	// else.
	Impairment impair.Model
	Seed       uint64
	// Filter, if not nil, decides on every datagram first; impair.Chance leaves it to Impairment. It must neither keep
	// nor change Data.
	Filter func(*Datagram) impair.Verdict
	// Watch, if not nil, is called with every datagram that is sent, with its verdict, and with every one that arrives,
	// before the port gets it. It must neither keep nor change Data.
	Watch func(*Datagram)
}

// A Datagram is a RoCEv2 packet on a Network.
type Datagram struct {
	Time     time.Duration  // by the network's clock
	From, To netip.Addr     // of the ports: To is a member where the destination is a multicast group
	Arrived  bool           // it leaves the network; else it enters it
	Verdict  impair.Verdict // Drop if there is no such destination
	// Flipped is the bit that Corrupt changed, from the first of the IP header on, or -1 for none. In a datagram that
	// enters the network, Data is still unchanged.
	Flipped int
	Data    []byte // IP header to ICRC
}

// A Network is an IP network in memory. Its methods may be called concurrently.
type Network struct {
	c      NetworkConfig
	counts [impair.NumVerdicts]atomic.Uint64

	mu      sync.Mutex
	members map[netip.Addr][]*socket // by unicast address, or group
	paths   map[path]*impair.Lane[parcel]
	queue   []parcel // on the network, a heap by time and number
	numbers uint64
	timer   clock.Timer
	armed   time.Duration // when timer fires; valid with set
	set     bool
	pumping bool
	batch   []parcel // storage of deliver

	drives
}

// path is a pair of addresses.
type path struct{ from, to netip.Addr }

// parcel is a datagram for one socket.
type parcel struct {
	to      *socket
	from    netip.Addr
	at      time.Duration
	number  uint64
	verdict impair.Verdict
	flipped int
	isCopy  bool // the second one of a duplicate
	packet
}

// NewNetwork returns a network without ports.
func NewNetwork(c NetworkConfig) *Network {
	n := &Network{members: map[netip.Addr][]*socket{}, paths: map[path]*impair.Lane[parcel]{}}
	if n.enabled = c.Clock == nil; n.enabled {
		c.Clock = clock.Real()
	}
	if c.Latency <= 0 {
		c.Latency = time.Microsecond
	}
	n.c = c
	n.next.Store(never)
	return n
}

// Count returns the number of datagrams with a verdict, Pass to Corrupt.
func (n *Network) Count(v impair.Verdict) uint64 {
	if int(v) >= impair.NumVerdicts {
		return 0
	}
	return n.counts[v].Load()
}

// join makes a socket a receiver of an address. A unicast address has one receiver at most.
func (n *Network) join(s *socket, a netip.Addr) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !a.IsMulticast() && len(n.members[a]) > 0 {
		return fmt.Errorf("another port of the network has the address %v", a)
	}
	n.members[a] = append(n.members[a], s)
	return nil
}

// leave undoes a join, if there was one.
func (n *Network) leave(s *socket, a netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	i := slices.Index(n.members[a], s)
	if i < 0 {
		return
	}
	// A new slice: send reads the old one without the lock.
	n.members[a] = slices.Concat(n.members[a][:i], n.members[a][i+1:])
	if len(n.members[a]) == 0 {
		delete(n.members, a)
	}
}

// send takes datagrams in, which leave together. They are the network's from then on.
func (n *Network) send(from *socket, to netip.Addr, list ...packet) {
	n.mu.Lock()
	members := n.members[to]
	n.mu.Unlock()
	if len(members) == 0 && n.c.Watch != nil {
		for _, d := range list {
			n.c.Watch(&Datagram{Time: n.c.Clock.Elapsed(), From: from.addr(), To: to, Verdict: impair.Drop,
				Flipped: -1, Data: d.data})
		}
	}
	for i, m := range members {
		parcels := make([]parcel, len(list))
		for k, d := range list {
			if i < len(members)-1 { // a copy for each, since each may be corrupted
				d = d.clone()
			}
			parcels[k] = parcel{to: m, from: from.addr(), flipped: -1, packet: d}
		}
		n.path(from.addr(), m.addr()).Take(parcels, true, false)
	}
}

// path returns the lane from one address to another.
func (n *Network) path(from, to netip.Addr) *impair.Lane[parcel] {
	n.mu.Lock()
	defer n.mu.Unlock()
	w := path{from, to}
	l := n.paths[w]
	if l == nil {
		h := fnv.New64a()
		a, b := from.As16(), to.As16()
		h.Write(a[:])
		h.Write(b[:])
		l = impair.NewLane[parcel](&lane{n: n}, n.c.Clock, n.c.Impairment, rand.New(rand.NewPCG(n.c.Seed, h.Sum64())))
		n.paths[w] = l
	}
	return l
}

// datagram returns a parcel in the form of the configuration's functions.
func (n *Network) datagram(p *parcel, arrived bool) *Datagram {
	return &Datagram{Time: n.c.Clock.Elapsed(), From: p.from, To: p.to.addr(), Arrived: arrived, Verdict: p.verdict,
		Flipped: p.flipped, Data: p.data}
}

// lane is the impair.Handler of a path.
type lane struct {
	n    *Network
	last time.Duration // when the last parcel arrives; guarded by n.mu
}

func (l *lane) Decide(p *parcel) impair.Verdict {
	if l.n.c.Filter == nil {
		return impair.Chance
	}
	return l.n.c.Filter(l.n.datagram(p, false))
}

func (*lane) Copy(p parcel) parcel {
	p.packet, p.isCopy = p.clone(), true
	return p
}

func (*lane) Keep(p parcel) parcel { return p }

// Flip never ends a parcel: its receiver detects the bit, or does not.
func (*lane) Flip(p *parcel, bit uint32) bool {
	p.flipped = int(bit % uint32(8*len(p.data)))
	return true
}

func (l *lane) Decided(p *parcel, v impair.Verdict, _ bool) {
	p.verdict = v
	l.n.counts[v].Add(1)
	if l.n.c.Watch != nil {
		l.n.c.Watch(l.n.datagram(p, false))
	}
	if p.flipped >= 0 {
		p.data[p.flipped/8] ^= 1 << (p.flipped % 8)
	}
}

// Emit queues parcels that arrive after the latency. A copy arrives at an instant of its own, like a packet that was
// sent again: whether its receiver has acted on the first one is then no matter of which goroutine runs first.
func (l *lane) Emit(list []parcel, _, _, _ bool) {
	n := l.n
	n.mu.Lock()
	defer n.mu.Unlock()
	l.last = max(l.last, n.c.Clock.Elapsed()+n.c.Latency)
	for _, p := range list {
		if p.isCopy {
			l.last++
		}
		n.numbers++
		p.at, p.number = l.last, n.numbers
		n.push(p)
	}
	n.arm()
}

// arm sets the timer for the first parcel, or for later while consumers drive the network. The caller holds n.mu.
func (n *Network) arm() {
	if n.pumping || len(n.queue) == 0 || n.set && (n.late || n.armed <= n.queue[0].at) {
		return
	}
	now := n.c.Clock.Elapsed()
	d := max(n.queue[0].at-now, 0)
	if n.late = n.areBusy(now); n.late {
		d = max(d, driveStep)
	}
	n.set, n.armed = true, now+d
	if n.timer == nil {
		n.timer = n.c.Clock.AfterFunc(d, n.pump)
	} else {
		n.timer.Reset(d)
	}
}

// pump is the timer's function: it delivers what has arrived. The timer may fire while catchUp delivers, which sets it
// again when it is done.
func (n *Network) pump() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.set = false
	if n.pumping {
		return
	}
	if n.late && n.areBusy(n.c.Clock.Elapsed()) {
		n.arm() // the consumers still deliver
		return
	}
	n.deliver(n.c.Clock.Elapsed)
}

// catchUp delivers what had arrived before the call. It returns false while another goroutine delivers.
func (n *Network) catchUp() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.pumping {
		return false
	}
	now := n.c.Clock.Elapsed()
	n.deliver(func() time.Duration { return now })
	return true
}

// deliver delivers what arrives until now, one port's share after the other. Only one runs at a time. The caller holds
// n.mu, which is released for each delivery. It returns the number of datagrams.
func (n *Network) deliver(now func() time.Duration) (delivered int) {
	n.pumping = true
	batch := n.batch
	for len(n.queue) > 0 && n.queue[0].at <= now() {
		batch = append(batch[:0], n.pop())
		for len(n.queue) > 0 && n.queue[0].at == batch[0].at && n.queue[0].to == batch[0].to {
			batch = append(batch, n.pop())
		}
		n.mu.Unlock()
		batch[0].to.receive(batch)
		delivered += len(batch)
		clear(batch)
		n.mu.Lock()
	}
	n.batch, n.pumping = batch, false
	n.arm()
	return delivered
}

func (p *parcel) before(q *parcel) bool { return p.at < q.at || p.at == q.at && p.number < q.number }

func (n *Network) push(p parcel) {
	n.queue = append(n.queue, p)
	q := n.queue
	for i := len(q) - 1; i > 0 && q[i].before(&q[(i-1)/2]); i = (i - 1) / 2 {
		q[i], q[(i-1)/2] = q[(i-1)/2], q[i]
	}
	n.next.Store(int64(q[0].at))
}

func (n *Network) pop() parcel {
	q := n.queue
	p := q[0]
	last := len(q) - 1
	q[0] = q[last]
	q[last] = parcel{}
	q = q[:last]
	n.queue = q
	for i := 0; ; {
		c := 2*i + 1
		if c+1 < last && q[c+1].before(&q[c]) {
			c++
		}
		if c >= last || !q[c].before(&q[i]) {
			break
		}
		q[i], q[c] = q[c], q[i]
		i = c
	}
	if n.next.Store(never); last > 0 {
		n.next.Store(int64(q[0].at))
	}
	return p
}
