package storm

import (
	"fmt"
	"math/rand/v2"
	"time"

	"ciddk/ci"
)

// pair is a pair of queue pairs that are connected, reset after a failure, and connected again. Each connection is
// called a life.
type pair struct {
	ends  [2]*end
	life  uint64
	left  int  // messages left in this life, unless an end fails
	ended bool // no new requests are posted: both ends are reset after the posted ones
	reset bool // both ends are in the error state, and wait for the last packets of the old connection
}

// end is one consumer with its queue pair.
type end struct {
	s    *storm
	host *host
	pair *pair
	peer *end
	num  int // unique over all ends
	qp   ci.QP
	base int // offset of its memory in that of the host
	rnd  *rand.Rand
	side *side // model of the oracle for this life

	shared   bool // receives come from the SRQ
	ready    int  // number of receives to keep posted
	rq       *recvQueue
	window   int // maximum number of outstanding requests
	ids      uint64
	open     []*sending // outstanding, oldest first
	thinking bool       // a timer for a refill is set

	recvIDs  uint64
	recvFree []int

	// The memory window, or fast registration region, for the peer.
	mw, fast ci.Object
	win      winState
	winKey   ci.Key
	winVA    uint64
	winUsed  bool // a WRITE of the peer to it is outstanding
	variant  uint8
}

// winState is the state of a window.
type winState uint8

const (
	winIdle    winState = iota
	winBinding          // a bind or fast registration is posted
	winOpen             // the peer may use it
	winClosing          // an invalidation is posted, by the peer or here
)

// sending is a posted request with the data for checks.
type sending struct {
	*request
	slot   int // slot in the sender's memory and in that of the target
	window bool
	source int // READ: offset in the source
}

func (e *end) sendAt(slot int) int   { return e.base + winBytes + slot*slotBytes }
func (e *end) recvAt(slot int) int   { return e.base + winBytes + (depth+slot)*slotBytes }
func (e *end) targetAt(slot int) int { return e.base + winBytes + (2*depth+slot)*slotBytes }
func (e *end) sourceAt() int         { return e.base + winBytes + 3*depth*slotBytes }

// pick returns a random element of a list.
func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

// connect connects the pair.
func (p *pair) connect(s *storm) error {
	p.life++
	p.ended, p.reset = false, false
	p.left = 1 + int(p.ends[0].rnd.ExpFloat64()*2000)
	s.report.Connects++
	r := p.ends[0].rnd
	mtu := pick(r, ci.MTU256, ci.MTU512, ci.MTU1024, ci.MTU1024, ci.MTU2048, ci.MTU4096)
	var attrs [2]ci.QPAttr
	depths := [2]uint8{uint8(1 + r.IntN(8)), uint8(1 + r.IntN(8))}
	psns := [2]ci.PSN{pick(r, ci.PSN(r.Uint32N(1<<24)), 0xfffff0), pick(r, ci.PSN(r.Uint32N(1<<24)), 0)}
	for i, e := range p.ends {
		attrs[i] = ci.QPAttr{Port: 1, DestNum: e.peer.qp.Num(), SQPSN: psns[i], RQPSN: psns[1-i], MTU: mtu,
			InitDepth: depths[i], RespRes: depths[1-i],
			RetryCount:  pick[uint8](r, 7, 7, 7, 7, 7, 7, 7, 7, 6, 6, 5, 4, 3, 2, 1, 0),
			RNRRetry:    pick[uint8](r, 7, 7, 7, 7, 6, 4, 2, 1, 0),
			MinRNRTimer: uint8(1 + r.IntN(14)), Access: ci.RemoteRead | ci.RemoteWrite | ci.RemoteAtomic,
			Primary: ci.Path{AckTimeout: pick[ci.TimeExp](r, 8, 10, 11), AV: ci.AVAttr{Port: 1, Global: true,
				GRH: ci.GRH{DGID: e.peer.host.addr.As16(), HopLimit: 64}}}}
	}
	for i, e := range p.ends {
		if err := e.begin(attrs[i]); err != nil {
			return err
		}
	}
	p.ends[0].side.peer, p.ends[1].side.peer = p.ends[1].side, p.ends[0].side
	for _, e := range p.ends {
		if err := e.feed(e.rnd.IntN(e.ready + 1)); err != nil {
			return err
		}
		e.feedLater()
		e.refillLater()
	}
	return nil
}

// begin takes an end from Reset to RTS, and resets all its other state.
func (e *end) begin(a ci.QPAttr) error {
	e.window = 1 + e.rnd.IntN(depth)
	e.ready = 1 + e.rnd.IntN(depth)
	e.ids, e.open, e.thinking = 0, nil, false
	e.recvIDs, e.recvFree = 0, nil
	for i := range depth {
		e.recvFree = append(e.recvFree, i)
	}
	clear(e.host.mem[e.base : e.base+endBytes])
	copy(e.host.mem[e.sourceAt():], e.s.pattern(e.num, 0, 0, maxBytes))
	if err := e.renewWindow(); err != nil {
		return err
	}
	e.rq = &recvQueue{}
	if e.shared {
		e.rq = e.host.shared
	}
	e.side = e.s.oracle.newSide(fmt.Sprintf("end %d (life %d, QP %#x at %v)", e.num, e.pair.life,
		e.qp.Num(), e.host.addr),
		endpoint{e.host.addr, uint32(e.qp.Num())}, a, e.host.ackDelay, e.rq, e.shared)
	if e.s.c.Connect != nil {
		e.s.c.Connect(&a)
	}
	for _, step := range []struct {
		st  ci.QPState
		set ci.QPField
	}{{ci.QPInit, ci.QPFieldsInit}, {ci.QPRTR, ci.QPFieldsRTR}, {ci.QPRTS, ci.QPFieldsRTS}} {
		a.State = step.st
		if err := e.qp.Modify(step.set, a); err != nil {
			return err
		}
	}
	return nil
}

// renewWindow creates the objects of the window again, because those of a queue pair that was reset stay bound.
func (e *end) renewWindow() error {
	for _, o := range []ci.Object{e.mw, e.fast} {
		if o != nil {
			if err := o.Destroy(); err != nil {
				return err
			}
		}
	}
	mw, err := e.host.pd.CreateMW(ci.MWCreate{Type: ci.MWType2})
	if err != nil {
		return err
	}
	fast, err := e.host.pd.AllocFastRegMR(1)
	if err != nil {
		return err
	}
	e.mw, e.fast = mw, fast
	e.win, e.winUsed = winIdle, false
	return nil
}

// feed posts n receives to the end's own queue, or fewer if it is full.
func (e *end) feed(n int) error {
	if e.shared || e.side.failed {
		return nil
	}
	var wrs []ci.RecvWR
	for ; n > 0 && len(e.recvFree) > 0; n-- {
		slot := e.recvFree[0]
		e.recvFree = e.recvFree[1:]
		e.recvIDs++
		id := e.recvIDs<<8 | uint64(slot)
		at, room := e.recvAt(slot), maxBytes
		if e.rnd.IntN(4000) == 0 {
			room = 100 // too small for some messages
		}
		clear(e.host.mem[at : at+slotBytes])
		cut := e.rnd.IntN(room)
		wrs = append(wrs, ci.RecvWR{ID: id, SGL: []ci.SGE{e.host.sge(at, cut), e.host.sge(at+cut, room-cut)}})
		e.rq.post(recv{id, uint32(room)})
	}
	if len(wrs) == 0 {
		return nil
	}
	if k, err := e.qp.PostRecv(wrs); err != nil || k != len(wrs) {
		return fmt.Errorf("%s: PostRecv of %d posted %d: %w", e.side.name, len(wrs), k, err)
	}
	return nil
}

// feedLater posts receives now, or late enough for the peer to find none.
func (e *end) feedLater() {
	if e.shared {
		return
	}
	life := e.pair.life
	e.s.after(e.late(), func() error {
		if e.pair.life != life {
			return nil
		}
		return e.feed(e.ready - len(e.rq.list))
	})
}

// late returns a random delay, often zero.
func (e *end) late() time.Duration {
	switch e.rnd.IntN(8) {
	case 0:
		return time.Duration(e.rnd.IntN(int(3 * time.Millisecond)))
	case 1, 2:
		return time.Duration(e.rnd.IntN(int(100 * time.Microsecond)))
	}
	return 0
}

// refillLater posts requests now, or after a random delay.
func (e *end) refillLater() {
	if e.thinking || e.pair.ended || e.s.enough() {
		return
	}
	e.thinking = true
	life := e.pair.life
	e.s.after(e.late(), func() error {
		if e.pair.life != life {
			return nil
		}
		e.thinking = false
		return e.refill()
	})
}
