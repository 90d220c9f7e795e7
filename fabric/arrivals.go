package fabric

import (
	"container/heap"
	"slices"
	"sync"
	"time"

	"ciddk/clock"
	"ciddk/rvt"
)

// arrivals are the packets on their way to an adapter, for Config.Timing. They are delivered in order of their arrival,
// by a timer.
type arrivals struct {
	ca    *CAPort
	clock clock.Clock

	mu     sync.Mutex
	heap   arrivalHeap
	seq    uint64
	timer  clock.Timer
	busy   bool // run delivers, and arms the timer when it ends
	closed bool
}

// arrival is a run of packets, with payload of its own.
type arrival struct {
	at   time.Duration
	seq  uint64
	pkts []rvt.Packet
}

func (a *arrivals) init(c *CAPort, k clock.Clock) { a.ca, a.clock = c, k }

// copyPackets returns packets with payload of their own.
func copyPackets(pkts []rvt.Packet) []rvt.Packet {
	list := make([]rvt.Packet, len(pkts))
	for i := range pkts {
		p := pkts[i]
		if p.Len > 0 {
			b := make([]byte, 0, p.Len)
			for _, s := range p.Payload {
				b = append(b, s[:min(len(s), int(p.Len)-len(b))]...)
			}
			p.Payload = [][]byte{b}
		}
		p.GRH = slices.Clone(p.GRH)
		list[i] = p
	}
	return list
}

// put adds packets that arrive at t. It keeps them.
func (a *arrivals) put(pkts []rvt.Packet, t time.Duration) {
	x := arrival{at: t, pkts: pkts}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	a.seq++
	x.seq = a.seq
	heap.Push(&a.heap, x)
	if a.heap[0].seq == x.seq && !a.busy {
		a.arm()
	}
}

// arm sets the timer to the first arrival. The caller holds a.mu.
func (a *arrivals) arm() {
	d := max(a.heap[0].at-a.clock.Elapsed(), 0)
	if a.timer == nil {
		a.timer = a.clock.AfterFunc(d, a.run)
		return
	}
	a.timer.Reset(d)
}

// run delivers what has arrived. One run at a time does so, and holds no lock during deliveries.
func (a *arrivals) run() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.busy {
		return
	}
	a.busy = true
	for len(a.heap) > 0 && a.heap[0].at <= a.clock.Elapsed() && !a.closed {
		x := heap.Pop(&a.heap).(arrival)
		a.mu.Unlock()
		a.ca.deliver(x.pkts)
		a.mu.Lock()
	}
	a.busy = false
	if len(a.heap) > 0 && !a.closed {
		a.arm()
	}
}

func (a *arrivals) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed, a.heap = true, nil
	if a.timer != nil {
		a.timer.Stop()
	}
}

// arrivalHeap implements heap.Interface, by time and then by order of sending.
type arrivalHeap []arrival

func (h arrivalHeap) Len() int { return len(h) }

func (h arrivalHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}

func (h arrivalHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *arrivalHeap) Push(x any) { *h = append(*h, x.(arrival)) }

// Pop implements heap.Interface.
func (h *arrivalHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	old[len(old)-1] = arrival{}
	*h = old[:len(old)-1]
	return x
}
