package mlx4

import (
	"errors"

	"ciddk/ci"
	"ciddk/internal/mlx4/prm"
	"ciddk/internal/mlx4/queue"
)

// These errors are created in advance, because the data path must not allocate, even for an error.
var (
	errPoll   = fail("CQ.Poll", ci.InvalidCQHandle, "")
	errNotify = fail("CQ.Notify", ci.InvalidCQHandle, "")
	errPeek   = fail("CQ.Peek", ci.InvalidCQHandle, "")
	errWhen   = fail("CQ.Notify", ci.InvalidParameter, "unknown kind of notification")

	errResize = errors.New("mlx4: the adapter has not ended the ring of a CQ that was resized")
	errChain  = errors.New("mlx4: a chain of multicast groups has no end")
)

// Poll returns completions, oldest first. Status: InvalidCQHandle. Context: data.
func (q *cq) Poll(wc []ci.WC) (n int, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ring == nil || !q.refs.Alive() {
		return 0, q.unless(errPoll, errUserPoll)
	}
	if len(q.saved) > 0 {
		n = copy(wc, q.saved)
		clear(q.saved[:n])
		if q.saved = q.saved[n:]; len(q.saved) == 0 {
			q.saved = nil
		}
	}
	return n + q.take(wc[n:]), nil
}

// take moves entries of the ring to wc. mu is held.
func (q *cq) take(wc []ci.WC) (n int) {
	if q.hasEnded {
		return 0
	}
	var c queue.Completion
	for bad := 0; n < len(wc) && bad < 1<<q.ring.Log(); { // an adapter that writes bad entries must not hold Poll up
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
			q.isBad(&c)
		}
	}
	return n
}

// translate converts an entry to a completion, and frees the slots of the requests that it completes. It reports false
// for an entry that no request can have.
func (q *cq) translate(c *queue.Completion, wc *ci.WC) bool {
	x := q.last
	if x == nil || x.hw != c.QPN {
		if x = q.hca.qpTable.get(c.QPN); x == nil {
			return false
		}
		q.last = x
	}
	if c.IsBad || c.IsSend && x.send != q || !c.IsSend && x.recv != q {
		return false
	}
	var ok, fits bool
	*wc = ci.WC{Context: x.create.Context, QPN: x.num, Status: c.Status, Op: c.Op, VendorErr: uint32(c.Vendor)}
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
	isDatagram := !c.IsSend && x.isDatagram()
	if !fits || isDatagram && !c.FitsDatagram() {
		wc.Status = ci.WCGeneralErr
		q.isBad(c)
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
	if c.GRH || q.isEthernet() {
		wc.Flags |= ci.WCGRH
	}
	if q.isEthernet() {
		wc.SL = c.SL >> 1
	} else {
		wc.SL, wc.SLID, wc.PathBits = c.SL, c.SLID, c.PathBits
	}
	if q.create.Type == ci.QP1 && c.Flags == 0 {
		wc.PKeyIndex = uint16(c.Imm & 0x7f)
	}
}

// isBad reports an entry that the adapter should not have made, such as the end of a ring that nobody resizes, or a
// message that is longer than its receive. The queue has lost its integrity.
func (q *cq) isBad(c *queue.Completion) {
	q.notify.Event(ci.Event{Type: ci.EventCQError, Vendor: badEntry | uint64(c.QPN)})
}

// badEntry is the bit of Event.Vendor that marks a completion of an unknown QP or request, or with a wrong length. The
// other bits are the QP number.
const badEntry = 1 << 32

// save moves all entries from the ring to the completions that Poll returns first. QP.Destroy and the transition to
// Reset call it, because completions remain valid without their QP, and entries can be translated only while the QP has
// its slots.
func (q *cq) save() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.user != nil {
		return // the library does it
	}
	q.drain()
}

// drain is save with mu held.
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

// forget removes a QP that is being destroyed.
func (q *cq) forget(x *qp) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.last == x {
		q.last = nil
	}
}

// Peek returns the number of entries that wait. Status: InvalidCQHandle. Context: data.
func (q *cq) Peek() (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ring == nil || !q.refs.Alive() {
		return 0, q.unless(errPeek, errUserPeek)
	}
	return q.waiting(), nil
}

// Notify arms the CQ. The adapter raises the event at once for entries from an index on. The index is behind those that
// are there already, since they do not fire. Status: InvalidCQHandle, InvalidParameter. Context: data.
func (q *cq) Notify(when ci.Notify) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.ring == nil || !q.refs.Alive():
		return q.unless(errNotify, errUserNotify)
	case when > ci.NotifySolicited:
		return errWhen
	}
	end := q.ring.Seen()
	command := uint32(prm.ArmAny)
	if when == ci.NotifySolicited {
		command = prm.ArmSolicited
		if q.arm.command == prm.ArmAny && q.arm.index == end { // it is armed for more, and has not fired
			return nil
		}
	}
	q.arm.command, q.arm.index = command, end
	q.hca.uar.ArmCQ(q.ring.Arm(q.num, q.arm.sequence, command, end))
	return nil
}
