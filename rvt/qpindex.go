package rvt

import (
	"sync"
	"sync/atomic"
	"time"

	"ciddk/ci"
)

// mcastQPN is the destination QP number of multicast packets.
const mcastQPN = 0xffffff

// qpIndex finds the QPs of an HCA by number.
type qpIndex struct {
	byNum      table[QP]
	management [][2]atomic.Pointer[QP] // QP0 and QP1 of each port
	retired    quarantine
}

// special returns the place of QP0 or QP1 of a port, which is counted from 1.
func (x *qpIndex) special(port uint8, num ci.QPN) *atomic.Pointer[QP] {
	return &x.management[port-1][num]
}

// each calls f for each QP.
func (x *qpIndex) each(f func(*QP)) {
	x.byNum.all(f)
	for i := range x.management {
		for k := range x.management[i] {
			if q := x.management[i][k].Load(); q != nil {
				f(q)
			}
		}
	}
}

// remove takes q out of the index.
func (x *qpIndex) remove(q *QP) {
	if q.num >= 2 {
		x.byNum.del(uint32(q.num), q)
		return
	}
	for i := range x.management {
		x.management[i][q.num].CompareAndSwap(q, nil)
	}
}

// number finds a number for q and makes it known.
func (d *device) number(verb string, q *QP, c ci.QPCreate) error {
	if f := d.cfg.Ops.QPN; f != nil {
		n, err := f(c)
		if err != nil {
			return failErr(verb, ci.StatusOf(err), err)
		}
		q.num = n
		if n < 2 || n >= mcastQPN || !d.qps.byNum.put(uint32(n), q) {
			return failf(verb, ci.ResourceBusy, "QP number")
		}
		return nil
	}
	for range 1 << 20 {
		n := d.rand.uint32() & psnMask
		if n < 2 || n == mcastQPN || d.qps.retired.holds(ci.QPN(n), d.clock.Elapsed()) {
			continue
		}
		q.num = ci.QPN(n)
		if d.qps.byNum.put(n, q) {
			return nil
		}
	}
	return failf(verb, ci.InsufficientResources, "no free QP number")
}

// maxQuarantined bounds the numbers in quarantine, and with them its memory: about 40 MB.
const maxQuarantined = 1 << 20

// quarantine keeps numbers of destroyed QPs out of use.
type quarantine struct {
	mu    sync.Mutex
	until map[ci.QPN]time.Duration
}

func (t *quarantine) add(n ci.QPN, now, until time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.until == nil {
		t.until = make(map[ci.QPN]time.Duration)
	}
	if len(t.until) >= 1024 && len(t.until)&(len(t.until)-1) == 0 { // at each doubling
		for k, u := range t.until {
			if u <= now {
				delete(t.until, k)
			}
		}
	}
	if len(t.until) >= maxQuarantined {
		for k := range t.until { // any: the number is issued again with a chance of one in 2^24
			delete(t.until, k)
			break
		}
	}
	t.until[n] = until
}

func (t *quarantine) holds(n ci.QPN, now time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	u, ok := t.until[n]
	if ok && u <= now {
		delete(t.until, n)
		return false
	}
	return ok
}
