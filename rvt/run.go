package rvt

import (
	"sync"

	"ciddk/ci"
	"ciddk/wire"
)

// run is one turn of a QP's engine: the packets, completions and regions it collects while the QP's token is held. Runs are pooled,
// so a QP needs no scratch memory of its own.
type run struct {
	q       *QP
	out     *port // where pkts go
	polled  bool  // acknowledgements may wait
	more    bool  // the quantum is spent and work is left
	flat    bool  // view copies, so that a packet has few segments
	left    quantum
	npkts   int
	nsegs   int
	nwcs    int
	nbuf    int
	done    int // requests whose slots may be used again once the batch is out
	pkts    [runPackets]Packet
	segs    [runSegments][]byte
	wcs     [runCompletions]pendingWC
	buf     []byte // copies of what cannot be addressed directly
	holds   holds
	word    []byte
	grh     [1][]byte
	wordSeg [][]byte
}

const (
	runPackets     = 64
	runSegments    = 256
	runCompletions = 64
	runBuffer      = 64 << 10
)

var runPool = sync.Pool{New: func() any { return new(run) }}

func newRun(q *QP) *run {
	r := runPool.Get().(*run)
	r.q, r.left = q, newQuantum()
	return r
}

func (r *run) free() {
	r.q, r.out, r.polled, r.more, r.flat = nil, nil, false, false, false
	runPool.Put(r)
}

// packet is a fresh packet at the end of the batch, addressed to the QP's peer. It may send what is there first.
func (r *run) packet() *Packet {
	q := r.q
	if r.npkts == len(r.pkts) || r.out != q.port {
		r.send()
		r.out = q.port
	}
	p := &r.pkts[r.npkts]
	r.npkts++
	*p = Packet{} // a literal with fields would be made elsewhere and copied
	p.Service, p.PKey, p.DestQP, p.MTU, p.N, p.Route = q.service, q.pkey, q.attr.DestNum, q.mtu, 1, q.route
	p.MigReq = q.attr.APM == ci.APMMigrated
	return p
}

// unpacket takes the last packet back.
func (r *run) unpacket() { r.npkts-- }

// send hands the batch to the port, and lets go of the regions it refers to.
func (r *run) send() {
	if r.npkts > 0 {
		r.out.sent(r.pkts[:r.npkts])
		r.out.Send(r.pkts[:r.npkts])
		clear(r.segs[:r.nsegs])
	}
	r.npkts, r.nsegs, r.nbuf = 0, 0, 0
	r.holds.release()
	r.retire() // not before: inline data is sent from the ring itself
}

// retire frees the slots of requests that are complete.
func (r *run) retire() {
	if r.done > 0 {
		r.q.sq.Retire(r.done)
		r.done = 0
	}
}

// room makes sure that n more segments fit.
func (r *run) room(n int) {
	if r.nsegs+n > len(r.segs) || r.npkts == len(r.pkts) {
		r.send()
	}
}

// view appends the bytes of m to the segments; it copies where it must. False on a fault of the memory, and where the batch has no room.
func (r *run) view(m mem, n uint32) bool {
	if n == 0 {
		return true
	}
	if r.nsegs == len(r.segs) {
		return false
	}
	if !r.flat {
		if segs, ok := m.slices(r.segs[:r.nsegs], n); ok {
			if len(segs) > len(r.segs) {
				return false // more extents than there is room for
			}
			r.nsegs = len(segs)
			return true
		}
	}
	if r.buf == nil {
		r.buf = make([]byte, runBuffer)
	}
	if r.nbuf+int(n) > len(r.buf) {
		return false
	}
	b := r.buf[r.nbuf : r.nbuf+int(n)]
	if m.read(b) != nil {
		return false
	}
	r.nbuf += int(n)
	r.segs[r.nsegs] = b
	r.nsegs++
	return true
}

// complete queues a completion of the QP, to be filled in; queues are filled when the run ends, or earlier.
func (r *run) complete(cq *CQ, solicited bool) *ci.WC {
	if r.nwcs == len(r.wcs) {
		r.flushCompletions()
	}
	p := &r.wcs[r.nwcs]
	r.nwcs++
	p.cq, p.solicited = cq, solicited
	p.wc = ci.WC{}
	p.wc.QPN, p.wc.Context = r.q.num, r.q.notify.ctx
	return &p.wc
}

func (r *run) flushCompletions() {
	r.q.releaseRecvs() // who sees a completion finds room for another receive
	if r.q.service != wire.RC {
		r.send() // a send is complete when its data has left: the consumer may change the buffer from then on
	} else {
		r.retire() // what a peer has acknowledged is not in the batch; who sees its completion finds room for another request
	}
	for i := 0; i < r.nwcs; {
		j := i + 1
		for j < r.nwcs && r.wcs[j].cq == r.wcs[i].cq {
			j++
		}
		r.wcs[i].cq.put(r.wcs[i:j])
		i = j
	}
	r.nwcs = 0
}

// finish is the end of the run, with the token still held: completions become visible in the order in which the QP made them, then
// the packets leave.
func (r *run) finish() {
	if r.nwcs > 0 {
		r.flushCompletions()
	}
	r.q.releaseRecvs()
	r.send()
}
