package reference

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
)

// NetworkConfig describes an IP network within the process.
type NetworkConfig struct {
	// Clock moves datagrams, and should be the one of the HCAs; nil is the machine's. On a virtual clock (package clock) everything
	// happens on the goroutine that moves it, and with all of Config.Rand given, too, a run is the same each time.
	Clock clock.Clock
	// Latency is how long every datagram takes; 0 is 1 us. What leaves together arrives together.
	Latency time.Duration
	// Impairment is how bad each way is, from one address to another; Seed makes its choices. A way's choices depend on the seed, on its
	// two addresses and on the order of the datagrams on it, and on nothing else.
	Impairment Impairment
	Seed       uint64
	// Filter, if not nil, is asked about every datagram first. It may not keep Data, and not change it.
	Filter func(*Datagram) Verdict
	// Watch, if not nil, is shown every datagram as it is sent, with its fate, and every one that arrives, before the port sees it. It
	// may not keep Data, and not change it.
	Watch func(*Datagram)
}

// Datagram is a RoCEv2 packet on a Network.
type Datagram struct {
	Time     time.Duration // by the network's clock
	From, To netip.Addr    // of the ports: To is a member where the destination is a multicast group
	Arrived  bool          // it comes out of the network; else it goes in
	Verdict  Verdict       // what became of it; Drop if there is no such destination
	// Flipped is the bit that Corrupt changed, from the first of the IP header on, -1 for none. At the time of sending, Data is still whole.
	Flipped int
	Data    []byte // IP header to ICRC
}

// Network is an IP network in memory: it carries RoCEv2 packets, encoded to the last bit, between the ports that Virtual makes, and
// loses, doubles, holds and damages them as it is told. No socket is involved. A nil *Network is none.
type Network struct {
	c      NetworkConfig
	counts [Corrupt + 1]atomic.Uint64 // by Verdict

	mu      sync.Mutex
	members map[netip.Addr][]*virtualSocket // by unicast address, or group
	ways    map[way]*lane[parcel]
	queue   []parcel // under way, a heap by time and number
	numbers uint64
	timer   clock.Timer
	armed   time.Duration // when timer fires; valid with set
	set     bool
	pumping bool
}

// way is a pair of addresses.
type way struct{ from, to netip.Addr }

// parcel is a datagram under way to one socket.
type parcel struct {
	to      *virtualSocket
	from    netip.Addr
	at      time.Duration
	number  uint64
	verdict Verdict
	flipped int
	data    []byte
}

// NewNetwork makes a network without ports.
func NewNetwork(c NetworkConfig) *Network {
	if c.Clock == nil {
		c.Clock = clock.Real()
	}
	if c.Latency <= 0 {
		c.Latency = time.Microsecond
	}
	return &Network{c: c, members: map[netip.Addr][]*virtualSocket{}, ways: map[way]*lane[parcel]{}}
}

// Count is how many datagrams have met a verdict, Pass to Corrupt.
func (n *Network) Count(v Verdict) uint64 {
	if v > Corrupt {
		return 0
	}
	return n.counts[v].Load()
}

// join makes a socket a receiver of an address. The only receiver of a unicast address gets it alone.
func (n *Network) join(s *virtualSocket, a netip.Addr) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !a.IsMulticast() && len(n.members[a]) > 0 {
		return fmt.Errorf("another port of the network has the address %v", a)
	}
	n.members[a] = append(n.members[a], s)
	return nil
}

// leave undoes a join; false if there was none.
func (n *Network) leave(s *virtualSocket, a netip.Addr) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	i := slices.Index(n.members[a], s)
	if i < 0 {
		return false
	}
	// A new slice: send reads the old one without the lock.
	n.members[a] = slices.Concat(n.members[a][:i], n.members[a][i+1:])
	if len(n.members[a]) == 0 {
		delete(n.members, a)
	}
	return true
}

// send takes a datagram in, and owns data from then on.
func (n *Network) send(from *virtualSocket, to netip.Addr, data []byte) {
	n.mu.Lock()
	members := n.members[to]
	n.mu.Unlock()
	if len(members) == 0 && n.c.Watch != nil {
		n.c.Watch(&Datagram{Time: n.c.Clock.Now(), From: from.addr(), To: to, Verdict: Drop, Flipped: -1, Data: data})
	}
	for i, m := range members {
		d := data
		if i < len(members)-1 { // a copy for each: what happens to one on its way must not reach the others
			d = slices.Clone(data)
		}
		n.way(from.addr(), m.addr()).take([]parcel{{to: m, from: from.addr(), flipped: -1, data: d}}, true, false)
	}
}

// way finds the lane from one address to another.
func (n *Network) way(from, to netip.Addr) *lane[parcel] {
	n.mu.Lock()
	defer n.mu.Unlock()
	w := way{from, to}
	l := n.ways[w]
	if l == nil {
		h := fnv.New64a()
		a, b := from.As16(), to.As16()
		h.Write(a[:])
		h.Write(b[:])
		l = newLane[parcel](n, n.c.Clock, n.c.Impairment, rand.New(rand.NewPCG(n.c.Seed, h.Sum64())))
		n.ways[w] = l
	}
	return l
}

// datagram shows a parcel to the configuration's functions.
func (n *Network) datagram(p *parcel, arrived bool) *Datagram {
	return &Datagram{Time: n.c.Clock.Now(), From: p.from, To: p.to.addr(), Arrived: arrived, Verdict: p.verdict, Flipped: p.flipped, Data: p.data}
}

// The Network is the cargo of its own lanes.

func (n *Network) judge(p *parcel) Verdict {
	if n.c.Filter == nil {
		return Chance
	}
	return n.c.Filter(n.datagram(p, false))
}

func (*Network) again(p parcel) parcel {
	p.data = slices.Clone(p.data)
	return p
}

func (*Network) keep(p parcel) parcel { return p }

// flip leaves it to the receiver to find out.
func (*Network) flip(p *parcel, bit uint32) bool {
	p.flipped = int(bit % uint32(8*len(p.data)))
	return true
}

func (n *Network) decided(p *parcel, v Verdict, _ bool) {
	p.verdict = v
	n.counts[v].Add(1)
	if n.c.Watch != nil {
		n.c.Watch(n.datagram(p, false))
	}
	if p.flipped >= 0 {
		p.data[p.flipped/8] ^= 1 << (p.flipped % 8)
	}
}

// emit puts what is on its way at last into the queue.
func (n *Network) emit(list []parcel, _, _, _ bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	at := n.c.Clock.Now() + n.c.Latency
	for _, p := range list {
		n.numbers++
		p.at, p.number = at, n.numbers
		n.push(p)
	}
	n.arm()
}

// arm sets the timer for the first parcel. The caller holds n.mu.
func (n *Network) arm() {
	if n.pumping || len(n.queue) == 0 || n.set && n.armed <= n.queue[0].at {
		return
	}
	n.set, n.armed = true, n.queue[0].at
	d := max(n.armed-n.c.Clock.Now(), 0)
	if n.timer == nil {
		n.timer = n.c.Clock.AfterFunc(d, n.pump)
	} else {
		n.timer.Reset(d)
	}
}

// pump is the timer's function: it delivers what has arrived. The timer may fire while catchUp delivers, which sets it again when it is done.
func (n *Network) pump() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.set = false
	if n.pumping {
		return
	}
	n.deliver(n.c.Clock.Now)
}

// catchUp delivers what had arrived before the call; false while another goroutine delivers.
func (n *Network) catchUp() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.pumping {
		return false
	}
	now := n.c.Clock.Now()
	n.deliver(func() time.Duration { return now })
	return true
}

// deliver delivers what arrives until now, one port's share after the other. Only one runs at a time. The caller holds n.mu, which is released
// for each delivery.
func (n *Network) deliver(now func() time.Duration) {
	n.pumping = true
	var batch []parcel
	for len(n.queue) > 0 && n.queue[0].at <= now() {
		batch = append(batch[:0], n.pop())
		for len(n.queue) > 0 && n.queue[0].at == batch[0].at && n.queue[0].to == batch[0].to {
			batch = append(batch, n.pop())
		}
		n.mu.Unlock()
		batch[0].to.receive(batch)
		n.mu.Lock()
	}
	n.pumping = false
	n.arm()
}

func (p *parcel) before(q *parcel) bool { return p.at < q.at || p.at == q.at && p.number < q.number }

func (n *Network) push(p parcel) {
	n.queue = append(n.queue, p)
	q := n.queue
	for i := len(q) - 1; i > 0 && q[i].before(&q[(i-1)/2]); i = (i - 1) / 2 {
		q[i], q[(i-1)/2] = q[(i-1)/2], q[i]
	}
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
			return p
		}
		q[i], q[c] = q[c], q[i]
		i = c
	}
}
