package chaos

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"ciddk/accesslayer"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/ci"
)

var ne = binary.NativeEndian

// Sizes of an end.
const (
	sendDepth = 32
	recvDepth = 16
	slotLen   = 4096
	outSlots  = 64 // more than sendDepth: a slot is free again when its request has completed
	rwSlots   = 16
	credit    = 12 // messages that the peer has not checked; less than rwSlots and recvDepth
	counters  = 8
)

// end is one end of a connection. Its sender and its receiver are goroutines of their own.
type end struct {
	c         *conn
	side      int
	id        *cmid.ID
	pd        *accesslayer.PD
	connected bool

	// The peer may read ro, write rw, and use atomics on ctr. Field out holds outgoing messages. Field in holds the
	// buffers of receives, reads and atomics.
	ro, rw, ctr, out, in             *guarded
	roMR, rwMR, ctrMR, outMR, inMR   *accesslayer.MR
	own, peer                        terms
	sendQ, recvQ                     ledger
	nextSend, nextRecv, sent         uint64
	mirror                           [counters]uint64 // expected values of the peer's ctr after all posted requests
	lost                             atomic.Bool      // the queues were destroyed before all requests completed
	received                         atomic.Uint64    // messages
	looked                           chan struct{}    // the peer's receiver sends when it has checked a message
	rwMu                             sync.Mutex
	rwGone                           bool // rwMR was deregistered
	senderDone, receiverDone, isDead atomic.Bool
}

func newEnd(c *conn, side int) *end {
	e := &end{c: c, side: side, looked: make(chan struct{}, 1)}
	seed := mix(c.seed + uint64(side))
	e.ro, e.rw, e.ctr = newGuarded(2*slotLen, seed), newGuarded(rwSlots*slotLen, seed+1), newGuarded(8*counters, seed+2)
	e.out, e.in = newGuarded(outSlots*slotLen, seed+3), newGuarded((outSlots+recvDepth)*slotLen, seed+4)
	fill(e.ro.body(), seed, 2)
	if side == 0 {
		c.ends[0] = e
	}
	return e
}

// Kinds of messages. The header of a message has its number, its kind and an offset.
const (
	plain     = iota // the rest of the message is its content
	written          // a slot of rw has the content
	headerLen = 24
)

// start runs sender and receiver.
func (e *end) start(seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	w := e.c.w
	for name, f := range map[string]func(*actor){"sender": func(a *actor) { e.send(a, r) }, "receiver": e.receive} {
		e.c.streams.Add(1)
		w.start(fmt.Sprintf("%s %d of %s", name, e.side, e.c.name), func(a *actor) {
			defer e.c.streams.Done()
			f(a)
		})
	}
}

func (e *end) other() *end { return e.c.ends[1-e.side] }

// broken handles an error that ends the streams of this end. It is a failure unless the connection is fragile.
func (e *end) broken(what string, err error) {
	if errors.Is(err, errClosed) {
		e.lost.Store(true) // with the QP or CQ
	}
	e.isDead.Store(true)
	if e.c.fragile.Load() {
		return
	}
	var status ci.WCStatus
	if failed, ok := errors.AsType[ci.WCError](err); ok {
		status = failed.Status()
	}
	if (status == ci.WCTimeoutRetryErr || status == ci.WCFlushErr) && e.c.w.dog.starved() {
		e.c.w.tally.add("connections lost on a busy machine", 1)
		e.c.harm()
		return
	}
	if status == ci.WCFlushErr && e.id.Err() == nil { // a send of the QP failed, and the sender reports the error
		return
	}
	e.c.w.v.failf("%s: end %d: %s failed, though nothing disturbed the connection: %v (error of its ID: %v); "+
		"terms received %+v, of the peer %+v", e.c.name, e.side, what, err, e.id.Err(), e.peer, e.other().own)
	e.c.harm()
}

// wait returns completions, or none if the streams must stop first.
func (e *end) wait(a *actor, cq *accesslayer.CQ, most time.Duration, wc []ci.WC) (int, error) {
	a.beat()
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	n, err := cq.Wait(ctx, wc)
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil
	}
	return n, err
}

// send posts random requests until the connection is quiet, or until an error.
func (e *end) send(a *actor, r *rand.Rand) {
	defer e.senderDone.Store(true)
	for !e.c.quiet.Load() && !e.stopping() && !e.isDead.Load() {
		if e.sendQ.len()+8 > sendDepth {
			e.reap(a, 50*time.Millisecond)
			continue
		}
		if e.sent-e.other().received.Load() >= credit {
			e.reap(a, 5*time.Millisecond)
			select {
			case <-e.looked:
			case <-time.After(5 * time.Millisecond):
			case <-e.c.stop:
			}
			continue
		}
		e.batch(r)
		if r.IntN(2) == 0 {
			e.reap(a, time.Nanosecond)
		}
	}
	e.drainSends(a)
}

func (e *end) stopping() bool {
	select {
	case <-e.c.stop:
		return true
	default:
		return false
	}
}

// drainSends waits until all requests have completed.
func (e *end) drainSends(a *actor) {
	deadline := e.c.w.clock.Elapsed() + patience
	for e.sendQ.len() > 0 && !e.lost.Load() {
		if e.c.w.clock.Elapsed() > deadline {
			e.c.w.v.failf("%s: end %d: %d send requests did not complete, the first is %d; dead: %v, ID: %v, %s",
				e.c.name,
				e.side, e.sendQ.len(),
				e.sendQ.queue[0].id, e.isDead.Load(), e.id.Err(), e.state())
			return
		}
		if e.c.unsteady && e.id.Err() != nil { // the end of the ID flushes, unless an injected error prevented it
			e.flush()
		}
		e.reap(a, 100*time.Millisecond)
	}
}

// state returns a description of the QP and of the ending of the connection.
func (e *end) state() string {
	attr, err := e.id.QP().Query()
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("QP %v, ended by: %v", attr.State, e.c.how.Load())
}

// reap handles completions of the send queue.
func (e *end) reap(a *actor, most time.Duration) {
	var wc [8]ci.WC
	n, err := e.wait(a, e.id.SendCQ(), most, wc[:])
	if err != nil {
		e.broken("poll of the send queue", err)
		if !e.lost.Load() {
			e.c.w.v.failf("%s: end %d: poll of the send queue: %v", e.c.name, e.side, err)
			e.lost.Store(true)
		}
		return
	}
	if e.lost.Load() { // a reset QP drops its requests, and flushes those posted later
		return
	}
	for i := range wc[:n] {
		if err := e.sendQ.complete(&wc[i]); err != nil {
			e.c.w.v.failf("%s: end %d: send queue: %v", e.c.name, e.side, err)
		}
		if wc[i].Status != ci.WCSuccess && !e.isDead.Load() {
			e.broken("a send request", wc[i].Err())
		}
	}
	e.c.w.tally.add("send completions", n)
}

// receive checks messages until the streams end.
func (e *end) receive(a *actor) {
	defer e.receiverDone.Store(true)
	var wc [4]ci.WC
	for !e.stopping() && !e.lost.Load() && e.recvQ.len() > 0 {
		n, err := e.wait(a, e.id.RecvCQ(), 20*time.Millisecond, wc[:])
		if err != nil {
			e.broken("poll of the receive queue", err)
			return
		}
		for i := range wc[:n] {
			if !e.lost.Load() {
				e.taken(&wc[i])
			}
		}
	}
}

// taken handles the completion of a receive.
func (e *end) taken(wc *ci.WC) {
	if err := e.recvQ.complete(wc); err != nil {
		e.c.w.v.failf("%s: end %d: receive queue: %v", e.c.name, e.side, err)
		return
	}
	if wc.Status != ci.WCSuccess {
		if !e.isDead.Load() {
			e.broken("a receive", wc.Err())
		}
		return
	}
	if err := e.look(wc); err != nil {
		e.c.w.v.failf("%s: end %d: message %d: %v", e.c.name, e.side, e.received.Load(), err)
	}
	e.received.Add(1)
	select {
	case e.other().looked <- struct{}{}:
	default:
	}
	if !e.stopping() && !e.isDead.Load() {
		if err := e.postRecv(); err != nil {
			e.broken("post of a receive", err)
		}
	}
}

// recvSlot returns the buffer of the receive with an ID.
func (e *end) recvSlot(id uint64) uint64 { return (outSlots + id%recvDepth) * slotLen }

func (e *end) postRecv() error {
	off, r := e.recvSlot(e.nextRecv), e.inMR.Region()
	cut := uint32(mix(e.nextRecv) % slotLen)
	wr := ci.RecvWR{ID: e.nextRecv, SGL: []ci.SGE{r.SGE(off, cut), r.SGE(off+uint64(cut), slotLen-cut)}}
	if _, err := e.id.QP().PostRecv([]ci.RecvWR{wr}); err != nil {
		return err
	}
	e.recvQ.add(entry{id: wr.ID, signaled: true})
	e.nextRecv++
	return nil
}

// look checks the content of a message.
func (e *end) look(wc *ci.WC) error {
	w := e.c.w
	w.tally.add("messages received", 1)
	want := e.received.Load()
	from := mix(e.c.seed + uint64(1-e.side))
	if wc.Op == ci.WCRecvWrite {
		slot := e.rw.body()[want%rwSlots*slotLen:][:slotLen]
		n := wc.Imm >> 8 & 0xffff
		if uint64(wc.Imm&0xff) != want&0xff || wc.Flags&ci.WCImmediate == 0 || n > slotLen {
			return fmt.Errorf("immediate %#x is not that of message %d", wc.Imm, want)
		}
		return e.compare("written", slot[:n], from, want)
	}
	b := e.in.body()[e.recvSlot(wc.ID):][:slotLen]
	if wc.Length < headerLen || wc.Length > slotLen {
		return fmt.Errorf("%d bytes", wc.Length)
	}
	num, kind, n := binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:]), binary.BigEndian.Uint64(b[16:])
	if num != want || kind > written || n > slotLen {
		return fmt.Errorf("header has number %d, kind %d, length %d", num, kind, n)
	}
	w.tally.add("bytes received", int(n))
	if kind == written {
		return e.compare("written", e.rw.body()[want%rwSlots*slotLen:][:n], from, want)
	}
	if uint64(wc.Length) != headerLen+n {
		return fmt.Errorf("%d bytes, the header says %d", wc.Length, headerLen+n)
	}
	return e.compare("sent", b[headerLen:][:n], from, want)
}

func (e *end) compare(how string, b []byte, seed, n uint64) error {
	e.rwMu.Lock()
	defer e.rwMu.Unlock()
	if e.rwGone && how == "written" {
		return nil // the slot was cleared here
	}
	if i := differs(b, seed, n); i >= 0 {
		return fmt.Errorf("byte %d of %d %s is wrong", i, len(b), how)
	}
	return nil
}
