package userlib

import (
	"sync"

	"ciddk/ci"
	"ciddk/hca/reference/arena"
	"ciddk/internal/mlx4/prm"
	"ciddk/internal/mlx4/queue"
	"ciddk/internal/mlx4/userabi"
)

// cq is a completion queue.
type cq struct {
	ca       *ca
	num      uint32
	doorbell uint32
	control  userabi.Control

	mu       sync.Mutex // guards what follows
	life     arena.Life
	isBroken bool // the queue has lost its integrity
	ring     *queue.CompletionRing
	saved    []ci.WC // of QPs that were destroyed or reset, or of a ring before a resize
	qps      map[uint32]*qp
	last     *qp // of the last completion
	arm      arm
	empty    int // polls that found nothing, in a row

	isResizing bool // from the command until Resize has found the entry that ends the old ring
	hasEnded   bool // the adapter has failed: entries do not count any more
}

// arm is what the queue was armed for last.
type arm struct {
	command uint32 // prm.ArmAny, prm.ArmSolicited, or 0
	index   uint32 // from which entries raise the event
	events  uint32 // completion events at that time
}

func preCreateCQ(a *ci.UserCreateCQ, ub *ci.UserBuffer) error {
	if _, ok := a.PD.(*pd); ok {
		ask(ub, userabi.CQSize)
	}
	return nil
}

func postCreateCQ(a *ci.UserCreateCQ, ub *ci.UserBuffer, err error) error {
	const verb = "PD.CreateCQ"
	d, ok := a.PD.(*pd)
	if !ok || err != nil || ub.Status != 0 {
		return nil
	}
	r, b, control, err := d.ca.cqArea(verb, ub.Out)
	if err != nil {
		return err
	}
	if r.Doorbell < userabi.DoorbellCQ || r.Doorbell >= userabi.DoorbellCQ+userabi.MaxQPs {
		return badAnswer(verb, "doorbell %d", r.Doorbell)
	}
	q := &cq{ca: d.ca, num: r.Number, doorbell: r.Doorbell, control: control, qps: map[uint32]*qp{}}
	if q.ring, err = queue.NewCompletionRing(b, control.Record(), uint8(r.Log), d.ca.cqeShift); err != nil {
		return badAnswer(verb, "%v", err)
	}
	q.ca.Hold()
	a.CQ = ci.UserCQ{Handle: q, Poll: q.poll, Peek: q.peek, Notify: q.notify}
	return nil
}

// cqArea returns the memory of the queue in an answer.
func (c *ca) cqArea(verb string, answer []byte) (r userabi.CQ, b []byte, control userabi.Control, err error) {
	if err := userabi.Decode(answer, &r); err != nil {
		return r, nil, control, badAnswer(verb, "%v", err)
	}
	if r.Log > 22 {
		return r, nil, control, badAnswer(verb, "a queue of 1<<%d entries", r.Log)
	}
	b, control, err = c.area(verb, r.Offset, 1<<(r.Log+uint32(c.cqeShift)))
	return r, b, control, err
}

var errResizeOverflow = &ci.Error{Verb: "CQ.Resize", Status: ci.Overflow, Detail: "more entries wait than the size"}

// preResizeCQ makes polls and armings wait until the queue has moved or remains. It empties the queue, so that there is
// room for the entry that ends it.
func preResizeCQ(a *ci.UserResizeCQ, ub *ci.UserBuffer) error {
	q, ok := a.CQ.(*cq)
	if !ok {
		return nil
	}
	ask(ub, userabi.CQSize)
	q.mu.Lock()
	if a.Size > 0 && q.waiting() > a.Size {
		q.mu.Unlock()
		return errResizeOverflow
	}
	q.drain()
	q.isResizing = true
	return nil
}

func postResizeCQ(a *ci.UserResizeCQ, ub *ci.UserBuffer, err error) {
	q, ok := a.CQ.(*cq)
	if !ok {
		return
	}
	defer q.mu.Unlock()
	defer func() { q.isResizing = false }()
	if err != nil || ub.Status != 0 || len(ub.Out) == 0 {
		return
	}
	q.drain() // up to the entry that ends the ring
	r, b, _, e := q.ca.cqArea("CQ.Resize", ub.Out)
	if e != nil || !q.follow(b, uint8(r.Log)) {
		q.isBroken = true
	}
}

// follow continues in the memory of a resize. mu is held.
func (q *cq) follow(b []byte, log uint8) bool {
	var c queue.Completion
	if e := q.ring.Next(); e != nil {
		queue.DecodeCompletion(e, &c)
	}
	if !c.IsResize {
		return false
	}
	q.ring.Advance()
	r, err := q.ring.Follow(b, log)
	if err != nil {
		return false
	}
	q.ring = r
	r.Publish()
	return true
}

// preDestroyCQ ends polls and armings, until Destroy has failed.
func preDestroyCQ(a *ci.UserDestroyCQ, _ *ci.UserBuffer) error {
	if q, ok := a.CQ.(*cq); ok {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.life.Begin()
	}
	return nil
}

func postDestroyCQ(a *ci.UserDestroyCQ, _ *ci.UserBuffer, err error) {
	q, ok := a.CQ.(*cq)
	if !ok {
		return
	}
	q.mu.Lock()
	hasEnded := q.life.Finish(err)
	if hasEnded {
		q.saved, q.last = nil, nil
	}
	q.mu.Unlock()
	if hasEnded {
		q.ca.Drop()
	}
}

var (
	errPollDestroyed   = &ci.Error{Verb: "CQ.Poll", Status: ci.InvalidCQHandle}
	errPeekDestroyed   = &ci.Error{Verb: "CQ.Peek", Status: ci.InvalidCQHandle}
	errNotifyDestroyed = &ci.Error{Verb: "CQ.Notify", Status: ci.InvalidCQHandle}
	errNotify          = &ci.Error{Verb: "CQ.Notify", Status: ci.InvalidParameter, Detail: "unknown condition"}
)

// isOver reports whether the queue cannot be used any more. mu is held.
func (q *cq) isOver() bool { return q.isBroken || q.life.IsOver() }

// poll implements ci.UserCQ.Poll.
func (q *cq) poll(wc []ci.WC) (n int, err error) {
	q.mu.Lock()
	if q.isOver() {
		q.mu.Unlock()
		return 0, errPollDestroyed
	}
	if len(q.saved) > 0 {
		n = copy(wc, q.saved)
		clear(q.saved[:n])
		if q.saved = q.saved[n:]; len(q.saved) == 0 {
			q.saved = nil
		}
	}
	n += q.take(wc[n:])
	if n < len(wc) && q.ca.head.HasFailed() {
		n += q.flush(wc[n:])
	}
	mustYield := q.foundNothing(n)
	q.mu.Unlock()
	if mustYield {
		q.ca.Yield()
	}
	return n, nil
}

// pollsPerYield is the number of empty polls in a row after which a poll yields the processor.
const pollsPerYield = 8

// foundNothing counts empty polls. A process that polls and finds nothing may keep the processor from the daemon, or
// from the process that it waits for, until the end of its time slice. It therefore yields from time to time. mu is
// held.
func (q *cq) foundNothing(n int) (mustYield bool) {
	if n > 0 {
		q.empty = 0
		return false
	}
	q.empty++
	return q.empty%pollsPerYield == 0
}

// take moves entries of the ring to wc. mu is held.
func (q *cq) take(wc []ci.WC) (n int) {
	if q.hasEnded {
		return 0
	}
	var c queue.Completion
	for bad := 0; n < len(wc) && bad < 1<<q.ring.Log(); { // an adapter that writes bad entries must not hold poll up
		e := q.ring.Next()
		if e == nil {
			break
		}
		queue.DecodeCompletion(e, &c)
		if c.IsResize && q.isResizing {
			break // Resize goes on from here
		}
		// The entry is free before the slot of the request: another goroutine may post to the slot at once, and the
		// queue has room for as many entries as requests are outstanding.
		q.ring.Advance()
		q.ring.Publish()
		if !c.IsResize && q.translate(&c, &wc[n]) {
			n++
		} else {
			bad++
			q.reportBad(&c)
		}
	}
	return n
}

// reportBad reports an entry that the adapter should not have made. The driver raises EventCQError.
func (q *cq) reportBad(c *queue.Completion) {
	q.control.ReportBad(c.QPN)
	q.ca.ring(q.doorbell)
}

// translate makes a completion of an entry, and frees the slots of the requests that it completes. It reports false for
// an entry that no request can have, which is dropped.
func (q *cq) translate(c *queue.Completion, wc *ci.WC) bool {
	x := q.last
	if x == nil || x.hw != c.QPN {
		if x = q.qps[c.QPN]; x == nil {
			return false
		}
		q.last = x
	}
	if c.IsBad || c.IsSend && x.sendCQ != q || !c.IsSend && x.recvCQ != q {
		return false
	}
	var ok, fits bool
	*wc = ci.WC{Context: x.context, QPN: x.num, Status: c.Status, Op: c.Op, VendorErr: uint32(c.Vendor)}
	switch {
	case c.IsSend:
		fits = x.sq.Fits(c)
		x.binds.Settle(x.sq, c.Index, fits && c.Status == ci.WCSuccess)
		wc.ID, ok = x.sq.Complete(c.Index)
	case x.srq != nil:
		wc.ID, fits, ok = x.srq.complete(c)
	case x.rq != nil:
		fits = x.rq.Fits(c)
		wc.ID, ok = x.rq.Complete(c.Index)
	}
	if !ok || c.Status != ci.WCSuccess {
		return ok
	}
	isDatagram := !c.IsSend && x.rules.Type == ci.UD
	if !fits || isDatagram && !c.FitsDatagram() {
		wc.Status = ci.WCGeneralErr
		q.reportBad(c)
		return true
	}
	wc.Length, wc.Flags = c.Length, c.Flags
	if c.Flags != 0 {
		wc.Imm = c.Imm
	}
	if isDatagram {
		x.translateDatagram(c, wc)
	}
	return true
}

// translateDatagram sets what only datagrams have.
func (q *qp) translateDatagram(c *queue.Completion, wc *ci.WC) {
	wc.SrcQP = c.SrcQP
	if c.SumsOK && q.rules.Caps.Has(ci.CapIPChecksum) {
		wc.Flags |= ci.WCChecksumOK
	}
	isEthernet := q.control.State().IsEthernet
	if c.GRH || isEthernet {
		wc.Flags |= ci.WCGRH
	}
	if isEthernet {
		wc.SL = c.SL >> 1
	} else {
		wc.SL, wc.SLID, wc.PathBits = c.SL, c.SLID, c.PathBits
	}
}

// flush makes completions of the outstanding requests of an adapter that has failed. Receives of SRQs remain
// outstanding. mu is held.
func (q *cq) flush(wc []ci.WC) (n int) {
	q.hasEnded = true
	for _, x := range q.qps {
		if x.sendCQ == q {
			n += x.flush(wc[n:], ci.WCSend, x.sq)
		}
		if x.recvCQ == q && x.rq != nil {
			n += x.flush(wc[n:], ci.WCRecv, x.rq)
		}
	}
	return n
}

// A ring is a send queue or a receive queue.
type ring interface {
	Oldest() (index uint16, ok bool)
	Complete(index uint16) (id uint64, ok bool)
}

func (q *qp) flush(wc []ci.WC, op ci.WCOp, r ring) (n int) {
	for n < len(wc) {
		index, ok := r.Oldest()
		if !ok {
			break
		}
		if op == ci.WCSend {
			q.binds.Settle(q.sq, index, false)
		}
		id, _ := r.Complete(index) // it is outstanding
		wc[n] = ci.WC{ID: id, Context: q.context, QPN: q.num, Status: ci.WCFlushErr, Op: op}
		n++
	}
	return n
}

// drain moves all entries from the ring to the completions that poll returns first. mu is held.
func (q *cq) drain() {
	var wc [16]ci.WC
	for {
		n := q.take(wc[:])
		if n == 0 {
			return
		}
		q.saved = append(q.saved, wc[:n]...)
	}
}

// add adds a QP. If the number was that of another one, whose end the library has not seen yet, its completions come
// first.
func (q *cq) add(x *qp) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.qps[x.hw] != nil {
		q.drain()
	}
	q.qps[x.hw], q.last = x, nil
}

// save keeps the completions of a QP that enters Reset.
func (q *cq) save() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.drain()
}

// remove keeps the completions of a QP that was destroyed, and forgets the QP.
func (q *cq) remove(x *qp) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.qps[x.hw] == x {
		q.drain()
		delete(q.qps, x.hw)
		q.last = nil
	}
}

// waiting returns the number of entries that wait. mu is held.
func (q *cq) waiting() int {
	if q.hasEnded {
		return len(q.saved)
	}
	return len(q.saved) + int(q.ring.Seen()-q.ring.Consumer())
}

func (q *cq) peek() (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.isOver() {
		return 0, errPeekDestroyed
	}
	return q.waiting(), nil
}

// notify implements ci.UserCQ.Notify. The adapter raises the event at once for entries that the library has not seen.
func (q *cq) notify(when ci.Notify) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.isOver():
		return errNotifyDestroyed
	case when > ci.NotifySolicited:
		return errNotify
	}
	events, end := q.control.Events(), q.ring.Seen()
	command := uint32(prm.ArmAny)
	if when == ci.NotifySolicited {
		command = prm.ArmSolicited
		if q.arm == (arm{prm.ArmAny, end, events}) { // it is armed for more, and has not fired
			return nil
		}
	}
	q.arm = arm{command, end, events}
	q.ring.Arm(q.num, events, command, end)
	q.ca.ring(q.doorbell)
	return nil
}
