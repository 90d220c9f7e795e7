package mads

import (
	"errors"
	"sync"
	"sync/atomic"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/mad"
)

const recvSize = grhArea + mad.Size

// endpoint is QP0 or QP1 of a port. The goroutine of its pump handles received datagrams, and takes locks only for the
// state that a datagram needs. Datagrams to send are queued; each goroutine that adds to the queue posts what the send
// queue has room for.
type endpoint struct {
	p     *port
	num   uint8
	qp    *accesslayer.QP
	mem   []byte // receive slots, then send slots
	table atomic.Pointer[table]
	local localAgent
	up    atomic.Bool       // the QP works; its earlier events are ignored
	pump  *accesslayer.Pump // guarded by mu

	mu     sync.Mutex
	closed bool
	avs    avCache

	// Sending. A datagram is either in queue, or in out at the index of the slot whose memory holds it.
	queue    sendQueue
	free     *send
	out      []*send
	slots    []uint16 // unused slots
	posts    uint64   // number of posts so far
	busy     bool     // a goroutine posts
	corked   bool     // the pump handles several receives; replies are collected into a batch
	wrs      [postBatch]ci.SendWR
	sges     [postBatch][1]ci.SGE
	sendSGEs []ci.SGE

	// Receiving.
	recvSGEs [][]ci.SGE
	posted   []bool   // the HCA has the slot
	recvFree []uint16 // slots that neither the HCA nor the pump has
	nposted  int
	recvWRs  []ci.RecvWR
	done     []taken // receives that the pump handles now

	// Recovery: see recover.go.
	gen        uint32
	recovering bool
	flushed    sendQueue     // sends that a fault flushed, in order
	quiet      chan struct{} // holds a token when out and posted have become empty, or the endpoint was closed
	transfers  transfers
	replies    ReplyLimit
}

const postBatch = 16

// taken is a receive slot that the pump has, and the index of its completion.
type taken struct {
	slot uint16
	wc   int
}

// send is a datagram to send.
type send struct {
	next     *send
	av       *avEntry
	qpn      ci.QPN
	qkey     ci.QKey
	pkey     uint16
	order    uint64    // position among those posted
	attempts uint8     // how often it was flushed by an error of the QP and queued again
	tx       *tx       // of a request, the transaction
	seg      *outgoing // of a long message, the transfer
	data     [mad.Size]byte
}

type sendQueue struct {
	head, tail *send
	n          int
}

func (q *sendQueue) push(s *send) {
	if q.head == nil {
		q.head = s
	} else {
		q.tail.next = s
	}
	q.tail = s
	q.n++
}

func (q *sendQueue) unshift(s *send) {
	if s.next = q.head; q.head == nil {
		q.tail = s
	}
	q.head = s
	q.n++
}

func (q *sendQueue) pop() *send {
	s := q.head
	if s != nil {
		q.head = s.next
		s.next = nil
		q.n--
	}
	return s
}

// IDs of work requests: bit 63 marks receives, then follows the generation of the QP, and below it the slot.
const idRecv = 1 << 63

func (e *endpoint) id(slot uint16) uint64 { return uint64(e.gen&0x7fffffff)<<32 | uint64(slot) }

// newEndpoint creates the QP, moves it to RTS and starts its pump.
func newEndpoint(p *port, typ ci.QPType) (*endpoint, error) {
	cfg := &p.m.cfg
	attr := p.h.a.Attr()
	limit := func(n, most int) int {
		if most > 0 {
			return min(n, most)
		}
		return n
	}
	recvs, sends := limit(cfg.RecvDepth, attr.MaxWRs), limit(cfg.SendDepth, attr.MaxWRs)
	e := &endpoint{p: p, num: uint8(typ - ci.QP0), mem: make([]byte, recvs*recvSize+sends*mad.Size),
		out:      make([]*send, sends),
		sendSGEs: make([]ci.SGE, sends), recvSGEs: make([][]ci.SGE, recvs), posted: make([]bool,
			recvs), quiet: make(chan struct{}, 1)}
	e.table.Store(&table{})
	e.local.e = e
	e.transfers.init(e)
	e.replies.Init(newRand(), cfg.MaxRepliesPeer, cfg.MaxReplies)
	e.avs.init(p.h.pd, cfg.AVs)
	mr, err := p.h.pd.NewMR(ci.MRCreate{Memory: ci.Bytes(e.mem), Access: ci.LocalWrite})
	if err != nil {
		return nil, err
	}
	region := mr.Region()
	sges := make([]ci.SGE, recvs)
	for i := range sges {
		sges[i] = region.SGE(uint64(i*recvSize), recvSize)
		e.recvSGEs[i] = sges[i : i+1]
		e.recvFree = append(e.recvFree, uint16(i))
	}
	for i := range e.sendSGEs {
		e.sendSGEs[i] = region.SGE(uint64(recvs*recvSize+i*mad.Size), mad.Size)
		e.slots = append(e.slots, uint16(i))
	}
	// Twice as large as necessary, for completions that a reset without draining leaves in it.
	cq, err := p.h.pd.NewCQ(ci.CQCreate{Size: limit(2*(recvs+sends), attr.MaxCQEs)},
		accesslayer.CQHandler{OnEvent: func(_ *accesslayer.CQ, ev ci.Event) {
			p.m.al.Logger().Error("mads: event of a completion queue", "guid", p.id.CA, "port", p.id.Num, "QP", e.num,
				"event", ev.Type)
			e.fault()
		}})
	if err != nil {
		return nil, errors.Join(err, mr.Destroy())
	}
	e.qp, err = p.h.pd.NewSpecialQP(p.id.Num, ci.QPCreate{Type: typ, SendCQ: cq, RecvCQ: cq,
		QPCaps: ci.QPCaps{SendDepth: sends, RecvDepth: recvs, SendSGE: 1, RecvSGE: 1}}, e.onEvent)
	if err == nil {
		err = e.start()
	}
	e.up.Store(true)
	if err == nil {
		var pump *accesslayer.Pump
		pump, err = cq.NewPump(accesslayer.PumpConfig{Mode: cfg.Poll, Spin: cfg.Spin, Handle: e.handle})
		e.mu.Lock()
		e.pump = pump // nil if there is an error
		e.mu.Unlock()
	}
	if err != nil {
		e.close()
		return nil, errors.Join(err, cq.Destroy(), mr.Destroy())
	}
	return e, nil
}

// start moves the QP from Reset to RTS, and posts all receives.
func (e *endpoint) start() error {
	if err := e.qp.InitDatagram(e.p.id.Num, 0, e.defaultPKey()); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.postRecvs()
}

// defaultPKey returns the index of the default partition, to which management belongs, or 0 if the table does not have
// it yet.
func (e *endpoint) defaultPKey() uint16 {
	for _, want := range []ci.PKey{0xffff, 0x7fff} {
		for i, k := range e.p.attr().PKeys {
			if k == want {
				return uint16(i)
			}
		}
	}
	return 0
}

func (e *endpoint) onEvent(_ *accesslayer.QP, ev ci.Event) {
	switch ev.Type {
	case ci.EventSQError, ci.EventRQError, ci.EventQPFatal, ci.EventWQReqError, ci.EventWQAccessError:
		e.fault()
	}
}

// postRecvs posts every unused slot. e.mu is held.
func (e *endpoint) postRecvs() error {
	e.recvWRs = e.recvWRs[:0]
	for _, slot := range e.recvFree {
		e.posted[slot] = true
		e.recvWRs = append(e.recvWRs, ci.RecvWR{ID: idRecv | e.id(slot), SGL: e.recvSGEs[slot]})
	}
	n, err := e.qp.PostRecv(e.recvWRs)
	for _, slot := range e.recvFree[n:] {
		e.posted[slot] = false
	}
	e.nposted += n
	e.recvFree = append(e.recvFree[:0], e.recvFree[n:]...)
	return err
}

// enqueue queues a datagram whose address was checked. e.mu is held, and the caller releases it with unlock.
func (e *endpoint) enqueue(to *Address, b []byte) (*send, error) {
	attr := to.AV
	attr.Port = e.p.id.Num
	av, err := e.avs.get(attr)
	if err != nil {
		return nil, err
	}
	s := e.free
	if s == nil {
		s = new(send)
	} else {
		e.free, s.next = s.next, nil
	}
	s.av, s.qpn, s.qkey = av, to.QPN, to.QKey
	s.pkey, s.attempts = to.PKeyIndex, 0
	if s.qkey == 0 && s.qpn == 1 {
		s.qkey = ci.QKey(mad.QKeyGSI)
	}
	copy(s.data[:], b)
	e.queue.push(s)
	return s, nil
}

// recycle frees a send. e.mu is held.
func (e *endpoint) recycle(s *send) {
	e.avs.release(s.av)
	s.av, s.tx, s.seg = nil, nil, nil
	s.next, e.free = e.free, s
}

// full reports whether new datagrams of agents are rejected. e.mu is held.
func (e *endpoint) full() bool { return e.queue.n >= e.p.m.cfg.QueueLimit }

// crowded reports whether the service's own datagrams are dropped. Peers cause them, so they leave room for those of
// agents. e.mu is held.
func (e *endpoint) crowded() bool { return e.closed || e.queue.n >= (e.p.m.cfg.QueueLimit+1)/2 }

// unlock posts what was queued, and releases e.mu.
func (e *endpoint) unlock() {
	e.flush()
	e.mu.Unlock()
}

// flush posts what the send queue has room for. It releases e.mu while it posts, so that other goroutines can add
// datagrams, which are posted as well. Therefore it must be the last action under the lock: state that was read before
// may have changed.
func (e *endpoint) flush() {
	if e.busy || e.corked && e.queue.n < postBatch {
		return
	}
	e.busy = true
	for !e.closed && !e.recovering {
		n := 0
		var batch [postBatch]uint16
		for n < postBatch && len(e.slots) > 0 {
			s := e.queue.pop()
			if s == nil {
				break
			}
			if s.tx != nil && s.tx.over || s.seg != nil && s.seg.over {
				e.recycle(s)
				continue
			}
			slot := e.slots[len(e.slots)-1]
			e.slots = e.slots[:len(e.slots)-1]
			e.posts++
			s.order = e.posts
			e.out[slot], batch[n] = s, slot
			e.sges[n][0] = e.sendSGEs[slot]
			e.wrs[n] = ci.SendWR{ID: e.id(slot), Op: ci.OpSend, Flags: ci.SendSignaled, SGL: e.sges[n][:],
				To: ci.Dest{AV: s.av.av, QPN: s.qpn, QKey: s.qkey, PKeyIndex: s.pkey}}
			at := len(e.mem) - (len(e.out)-int(slot))*mad.Size
			copy(e.mem[at:at+mad.Size], s.data[:])
			n++
		}
		if n == 0 {
			break
		}
		e.mu.Unlock()
		k, err := e.qp.PostSend(e.wrs[:n])
		e.mu.Lock()
		clear(e.wrs[:n])
		if err == nil {
			continue
		}
		// Sends that were not accepted return to the front, in order.
		for i := n - 1; i >= k; i-- {
			s := e.out[batch[i]]
			e.out[batch[i]] = nil
			e.slots = append(e.slots, batch[i])
			if i == k && !isStateError(err) {
				e.failed(s, err)
				continue
			}
			e.queue.unshift(s)
		}
		if isStateError(err) {
			e.faultLocked()
		}
	}
	e.busy = false
	e.signalQuiet()
}

// isStateError reports whether an error of PostSend is due to the state of the QP and not to the request.
func isStateError(err error) bool {
	s := ci.StatusOf(err)
	return s == ci.InvalidQPState || s == ci.InvalidQPHandle || s == ci.InsufficientResources
}

// failed ends a send that the HCA rejected or could not execute. e.mu is held.
func (e *endpoint) failed(s *send, err error) {
	e.p.count.drop(DropSend)
	if s.tx != nil {
		e.finish(s.tx, nil, &ci.Error{Verb: verbDo, Status: ci.ErrorStatus, Detail: "the request could not be sent",
			Err: err})
	}
	if s.seg != nil {
		e.transfers.sendFailed(s.seg, err)
	}
	e.recycle(s)
}

// handle handles completions. Receives come first: if a response arrives together with the completion of its request,
// no timer is set. Datagrams that are queued meanwhile are sent together, at the latest at the end.
func (e *endpoint) handle(wcs []ci.WC) {
	e.done = e.done[:0]
	sends, bad := false, false
	e.mu.Lock()
	for i := range wcs {
		wc := &wcs[i]
		if wc.ID&idRecv == 0 {
			sends = true
		} else if slot := uint16(wc.ID); wc.ID == idRecv|e.id(slot) && int(slot) < len(e.posted) && e.posted[slot] {
			e.posted[slot] = false
			e.nposted--
			e.done = append(e.done, taken{slot, i})
		} // else the completion is from before a reset, and the slot is in use again
	}
	e.corked = len(e.done) > 1
	e.mu.Unlock()
	for _, d := range e.done {
		wc := &wcs[d.wc]
		if wc.Status == ci.WCSuccess {
			at := int(d.slot) * recvSize
			e.receive(wc, e.mem[at:at+recvSize])
			continue
		}
		bad = true // also for a flushed receive: the QP is in Error, even if no event was reported
		if wc.Status != ci.WCFlushErr {
			e.p.count.drop(DropReceive)
		}
	}
	e.mu.Lock()
	if sends {
		for i := range wcs {
			if wcs[i].ID&idRecv == 0 {
				bad = e.completed(&wcs[i]) || bad
			}
		}
	}
	for _, d := range e.done {
		e.recvFree = append(e.recvFree, d.slot)
	}
	e.corked = false
	if bad {
		e.faultLocked()
	}
	e.signalQuiet()
	if !e.closed && !e.recovering && len(e.recvFree) > 0 {
		if err := e.postRecvs(); err != nil {
			e.faultLocked()
		}
	}
	e.unlock()
}

// completed ends a send, and reports whether the QP has failed. e.mu is held.
func (e *endpoint) completed(wc *ci.WC) (bad bool) {
	slot := uint16(wc.ID)
	if wc.ID != e.id(slot) || int(slot) >= len(e.out) || e.out[slot] == nil {
		return false
	}
	s := e.out[slot]
	e.out[slot] = nil
	e.slots = append(e.slots, slot)
	switch wc.Status {
	case ci.WCSuccess:
		e.p.count.sent.Add(1)
		if s.tx != nil {
			e.sent(s.tx)
		}
		if s.seg != nil {
			e.transfers.sent(s.seg)
		}
		e.recycle(s)
		return false
	case ci.WCFlushErr:
		e.requeue(s)
	default:
		e.failed(s, wc.Err())
	}
	return true
}

// close closes the agents, and ends requests and queued datagrams. The objects are destroyed with the HCA.
func (e *endpoint) close() {
	e.mu.Lock()
	e.closed = true
	agents := make([]*agent, 0, len(e.table.Load().agents))
	for _, a := range e.table.Load().agents {
		agents = append(agents, a)
	}
	e.mu.Unlock()
	for _, a := range agents {
		_ = a.Close()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, q := range []*sendQueue{&e.flushed, &e.queue} {
		for s := q.pop(); s != nil; s = q.pop() {
			e.p.count.drop(DropClosed)
			e.recycle(s)
		}
	}
	e.transfers.close()
	e.signalQuiet()
}
