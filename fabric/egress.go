package fabric

import (
	"sync"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/rvt"
	"ciddk/wire"
)

// egress are the packets that an adapter has sent and that wait for the link of its port, for Config.Timing. Each lane
// has a queue, and the lanes take turns. Subnet management and packets to the port's own LIDs do not wait.
type egress struct {
	ca    *CAPort
	clock clock.Clock

	mu      sync.Mutex
	lanes   [managementLane + 1][]departure
	count   int   // in all lanes
	last    uint8 // the lane of the last departure
	timer   clock.Timer
	busy    bool // serve moves packets, and arms the timer when it ends
	closed  bool
	flushed uint64 // packets removed by flush
}

// A departure is a run of packets with one address, and payload of its own.
type departure struct {
	owner ci.QPN // that has sent them
	route *route
	pkts  []rvt.Packet
}

func (e *egress) init(c *CAPort, k clock.Clock) { e.ca, e.clock = c, k }

// put adds packets of one QP, which leave when the link is free. It copies them.
func (e *egress) put(r *route, pkts []rvt.Packet) {
	d := departure{owner: r.local, route: r, pkts: copyPackets(pkts)}
	if pkts[0].Service == wire.UD {
		d.owner = pkts[0].SrcQP
	}
	p := e.ca.port
	lane := p.node.soft.VL(0, 0, uint8(r.sl)) & managementLane
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	e.lanes[lane] = append(e.lanes[lane], d)
	e.count++
	e.serve()
}

// serve sends what the link is free for, and sets the timer for the rest. e.mu is held. It is released during
// departures, which one goroutine at a time makes.
func (e *egress) serve() {
	if e.busy {
		return
	}
	e.busy = true
	for e.count > 0 && !e.closed {
		if wait := e.ca.port.freeAt() - e.clock.Elapsed(); wait > 0 {
			if e.timer == nil {
				e.timer = e.clock.AfterFunc(wait, e.run)
			} else {
				e.timer.Reset(wait)
			}
			break
		}
		d := e.take()
		e.mu.Unlock()
		e.ca.depart(d.route, d.pkts, true)
		e.mu.Lock()
	}
	e.busy = false
}

func (e *egress) run() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.serve()
}

// take removes the first departure of the next lane that has one. e.mu is held, and e.count is above 0.
func (e *egress) take() departure {
	for {
		e.last = (e.last + 1) % uint8(len(e.lanes))
		list := e.lanes[e.last]
		if len(list) == 0 {
			continue
		}
		d := list[0]
		list[0] = departure{}
		if list = list[1:]; len(list) == 0 {
			list = nil
		}
		e.lanes[e.last] = list
		e.count--
		return d
	}
}

// flush removes the packets of a QP.
func (e *egress) flush(num ci.QPN) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.count == 0 {
		return
	}
	for lane, list := range e.lanes {
		kept := list[:0]
		for _, d := range list {
			if d.owner != num {
				kept = append(kept, d)
				continue
			}
			e.count--
			e.flushed += uint64(count(d.pkts))
		}
		clear(list[len(kept):])
		e.lanes[lane] = kept
	}
}

// flushCount returns the number of packets that flush has removed.
func (e *egress) flushCount() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.flushed
}

func (e *egress) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed, e.count = true, 0
	clear(e.lanes[:])
	if e.timer != nil {
		e.timer.Stop()
	}
}
