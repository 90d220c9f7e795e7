package rvt

import (
	"sync"

	"ciddk/ci"
	"ciddk/wire"
)

// turn is one run of a QP's engine: the packets, completions and regions that it collects while the QP's token is held.
// Turns are pooled, so that a QP needs no scratch memory of its own.
type turn struct {
	*endpoint         // the QP's
	out       *port   // where pkts go
	polled    bool    // acknowledgements may wait
	more      bool    // the quantum is spent and work is left
	flat      bool    // view copies, so that a packet has few segments
	left      quantum // what the turn may still do
	npkts     int
	nsegs     int
	nwcs      int
	nbuf      int
	done      int                                    // requests whose slots may be used again once the batch is out
	executed  [CountAtomics - CountWrites + 1]uint32 // requests of the peer, from CountWrites on
	pkts      [batchPackets]Packet
	segs      [batchSegments][]byte
	wcs       [batchCompletions]pendingWC
	buf       []byte // copies of what cannot be addressed directly
	holds     holds
	targets   [4][]byte // of write
	ahead     ahead
	late      late
	word      []byte
	grh       [1][]byte
	wordSeg   [][]byte
}

// The most that a turn collects before it hands a batch to the port or to a CQ.
const (
	batchPackets     = 64
	batchSegments    = 256
	batchCompletions = 64
	batchBuffer      = 64 << 10 // bytes of copies
)

var turnPool = sync.Pool{New: func() any { return new(turn) }}

// newTurn returns a turn with a full quantum. The caller holds the QP's token.
func newTurn(e *endpoint) *turn {
	t := turnPool.Get().(*turn)
	t.endpoint, t.left = e, newQuantum()
	return t
}

// free returns the turn to the pool.
func (t *turn) free() {
	t.endpoint, t.out, t.polled = nil, nil, false
	t.more, t.flat = false, false
	turnPool.Put(t)
}

// packet returns a new packet at the end of the batch, addressed to the QP's peer. It may send the batch first.
func (t *turn) packet() *Packet {
	e := t.endpoint
	if t.npkts == len(t.pkts) || t.out != e.port {
		t.send()
		t.out = e.port
	}
	p := &t.pkts[t.npkts]
	t.npkts++
	*p = Packet{} // a literal with fields would be made elsewhere and copied
	p.Service, p.PKey, p.DestQP = e.service, e.pkey, e.attr.DestNum
	p.MTU, p.N, p.Route = e.mtu, 1, e.route
	p.MigReq = e.attr.APM == ci.APMMigrated
	return p
}

// unpacket removes the last packet from the batch.
func (t *turn) unpacket() { t.npkts-- }

// send passes the batch to the port, and releases the regions that it refers to.
func (t *turn) send() {
	if t.npkts > 0 {
		t.out.transmit(t.pkts[:t.npkts])
		clear(t.segs[:t.nsegs])
	}
	t.npkts, t.nsegs, t.nbuf = 0, 0, 0
	t.ahead.drop()
	t.holds.release()
	t.retire() // not before: inline data is sent from the ring itself
}

// retire frees the slots of requests that are complete.
func (t *turn) retire() {
	if t.done > 0 {
		t.sq.Retire(t.done)
		t.done = 0
	}
}

// room makes sure that a packet and n more segments fit.
func (t *turn) room(n int) {
	if t.nsegs+n > len(t.segs) || t.npkts == len(t.pkts) {
		t.send()
	}
}

// view appends n bytes of m, at least one, to the segments; it copies where it must. It reports false on a fault of the
// memory, and where the batch has no room.
func (t *turn) view(m mem, n uint32) bool {
	if t.nsegs == len(t.segs) {
		return false
	}
	if !t.flat {
		if segs, ok := t.slices(m, n); ok {
			if len(segs) > len(t.segs) {
				return false // more extents than there is room for
			}
			t.nsegs = len(segs)
			return true
		}
	}
	if b := t.ahead.take(m, n); b != nil {
		t.segs[t.nsegs] = b
		t.nsegs++
		return true
	}
	t.makeBuffer()
	if t.nbuf+int(n) > len(t.buf) {
		return false
	}
	b := t.buf[t.nbuf : t.nbuf+int(n)]
	if m.read(b) != nil {
		return false
	}
	t.nbuf += int(n)
	t.segs[t.nsegs] = b
	t.nsegs++
	return true
}

// makeBuffer makes the buffer for copies.
func (t *turn) makeBuffer() {
	if t.buf == nil {
		t.buf = make([]byte, batchBuffer)
	}
}

// slices appends views of n bytes to the segments of the batch and returns them all, without a copy. It reports false
// if that is not possible.
func (t *turn) slices(m mem, n uint32) ([][]byte, bool) {
	if m.mr != nil && m.mr.lent != nil {
		return m.lentViews(&t.holds, t.segs[:t.nsegs], uint64(n), false)
	}
	return m.slices(t.segs[:t.nsegs], n)
}

// write copies p to the region. After an error, a part may have been written.
func (t *turn) write(m mem, p []byte) error {
	if m.mr == nil || m.mr.lent == nil {
		return m.write(p)
	}
	views, ok := m.lentViews(&t.holds, t.targets[:0], uint64(len(p)), true)
	if !ok {
		return m.write(p)
	}
	for i, b := range views {
		p = p[copy(b, p):]
		t.targets[i] = nil
	}
	return nil
}

// complete returns a new completion of the QP for the caller to fill in. It reaches its CQ when the turn ends, or
// earlier.
func (t *turn) complete(cq *CQ, solicited bool) *ci.WC {
	if t.nwcs == len(t.wcs) {
		t.flushCompletions()
	}
	p := &t.wcs[t.nwcs]
	t.nwcs++
	p.cq, p.solicited = cq, solicited
	p.wc = ci.WC{}
	p.wc.QPN, p.wc.Context = t.num, t.notify.Context
	return &p.wc
}

func (t *turn) flushCompletions() {
	t.releaseRecvs() // a consumer that sees a completion finds room for another receive
	if t.service != wire.RC {
		t.send() // a send is complete when its data has left: the consumer may change the buffer from then on
	} else {
		// what a peer has acknowledged is not in the batch; a consumer that sees its completion finds room for another
		// request
		t.retire()
	}
	for i := range t.wcs[:t.nwcs] {
		if w := &t.wcs[i].wc; w.Status != ci.WCSuccess {
			t.dev.count.completed(w)
		}
	}
	for i := 0; i < t.nwcs; {
		j := i + 1
		for j < t.nwcs && t.wcs[j].cq == t.wcs[i].cq {
			j++
		}
		t.wcs[i].cq.put(t.wcs[i:j])
		i = j
	}
	t.nwcs = 0
}

// finish ends the turn, with the token still held: completions become visible in the order in which the QP made them,
// then the packets leave.
func (t *turn) finish() {
	if t.nwcs > 0 {
		t.flushCompletions()
	}
	t.releaseRecvs()
	t.send()
	t.countExecuted()
}

// executes counts a request of the peer.
func (t *turn) executes(c Counter) { t.executed[c-CountWrites]++ }

// countExecuted adds what the turn has executed to the counters of the device, which other QPs share.
func (t *turn) countExecuted() {
	for i, n := range t.executed {
		if n > 0 {
			t.dev.count.add(CountWrites+Counter(i), int(n))
			t.executed[i] = 0
		}
	}
}
