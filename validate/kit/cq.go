package kit

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"ciddk/ci"
	"ciddk/validate"
)

// CQ is a completion queue with waits.
type CQ struct {
	ci.CQ
	T      *validate.T
	Events *Events
	// unreliable says that a QP of a datagram service or of unreliable connection receives into the queue.
	unreliable bool
	seen       seen
	fired      chan struct{} // one token per callback not yet seen; nil if the case brought its own callback
}

// CQ makes a queue of at least size entries. Its Wait arms it, so a case that judges callbacks makes its own with CQWith.
func (ca *CA) CQ(pd ci.PD, size int) *CQ {
	q := &CQ{T: ca.T, fired: make(chan struct{}, 1)}
	return ca.cq(pd, q, ci.CQCreate{Size: size, OnCompletion: func(any) {
		select {
		case q.fired <- struct{}{}:
		default: // a token is there already; the waiter polls everything
		}
	}})
}

// CQWith makes a queue as described. Its Wait does not arm it. If OnEvent is nil, events go to Events.
func (ca *CA) CQWith(pd ci.PD, c ci.CQCreate) *CQ { return ca.cq(pd, &CQ{T: ca.T}, c) }

func (ca *CA) cq(pd ci.PD, q *CQ, c ci.CQCreate) *CQ {
	q.Events = NewEvents(ca.T)
	if c.OnEvent == nil {
		c.OnEvent = q.Events.Add
	}
	in, err := pd.CreateCQ(c)
	q.CQ = created(ca.T, in, err, fmt.Sprintf("PD.CreateCQ of %d entries", c.Size), "CQ")
	return q
}

// Wait gives the next n completions, whatever their status. The case fails if they have not come shortly before its deadline.
func (q *CQ) Wait(n int) []ci.WC {
	wc, err := q.collect(n, q.T.Remaining())
	OK(q.T, err, "CQ.Poll or CQ.Notify")
	if len(wc) < n {
		doubt := validate.DoubtTime
		if q.unreliable {
			doubt = validate.DoubtLoss
		}
		q.T.Fail(validate.Failure{Where: "completion queue", Expected: fmt.Sprintf("%d completions", n),
			Got: fmt.Sprintf("%d by the deadline: %s", len(wc), Completions(wc)), Doubt: doubt})
	}
	return wc
}

// WaitOK gives the next completions, which must be successes with these ids, in order.
func (q *CQ) WaitOK(ids ...uint64) []ci.WC {
	wcs := q.Wait(len(ids))
	for i, wc := range wcs {
		if wc.ID != ids[i] || wc.Status != ci.WCSuccess {
			q.T.Fail(validate.Failure{Where: fmt.Sprintf("completion %d of %d", i+1, len(ids)),
				Expected: fmt.Sprintf("request %d: success", ids[i]), Got: Completions(wcs), Doubt: DoubtOf(wc.Status, ci.WCSuccess)})
		}
	}
	return wcs
}

// WaitStatus gives the next completion, which must be of that request and have one of the statuses.
func (q *CQ) WaitStatus(id uint64, want ...ci.WCStatus) ci.WC {
	wc := q.Wait(1)[0]
	if wc.ID != id || !slices.Contains(want, wc.Status) {
		q.T.Fail(validate.Failure{Where: fmt.Sprintf("completion on QP %#x", uint32(wc.QPN)),
			Expected: fmt.Sprintf("request %d: %s", id, oneOf(want)), Got: Completions([]ci.WC{wc}), Doubt: DoubtOf(wc.Status, want...)})
	}
	return wc
}

// DoubtOf returns the doubt of a completion that has the status got instead of one of want: transport retries that are
// exhausted, where another end was expected, may be a loss on the link.
func DoubtOf(got ci.WCStatus, want ...ci.WCStatus) validate.Doubt {
	if got == ci.WCTimeoutRetryErr && !slices.Contains(want, got) {
		return validate.DoubtLoss
	}
	return ""
}

// Quiet expects that no completion comes for the time d.
func (q *CQ) Quiet(d time.Duration) {
	if wc, err := q.collect(1, d); err != nil || len(wc) > 0 {
		q.T.Fail(validate.Failure{Where: "completion queue", Expected: fmt.Sprintf("no completion for %v", d), Got: orErr(wc, err)})
	}
}

// Empty expects that no completion is there now.
func (q *CQ) Empty() {
	wc := make([]ci.WC, 1)
	if n, err := q.Poll(wc); n != 0 || err != nil {
		q.T.Fail(validate.Failure{Where: "CQ.Poll", Expected: "an empty queue", Got: orErr(wc[:n], err)})
	}
}

func orErr(wc []ci.WC, err error) string {
	if err != nil {
		return Describe(err)
	}
	return Completions(wc)
}

// collect polls until n completions are there, an error comes, or the time is over.
func (q *CQ) collect(n int, d time.Duration) ([]ci.WC, error) {
	deadline := time.NewTimer(d)
	defer deadline.Stop()
	// Beside the callback there is a slow tick: whether callbacks come is judged by the cases of that rule, not by every case.
	pause := time.NewTimer(time.Millisecond)
	defer pause.Stop()
	var out []ci.WC
	armed, wait := false, time.Millisecond
	for last := false; ; {
		wc := make([]ci.WC, n-len(out))
		k, err := q.Poll(wc)
		if k < 0 || k > len(wc) {
			return out, fmt.Errorf("Poll into %d entries gave %d", len(wc), k)
		}
		out = append(out, wc[:k]...)
		q.seen.add(wc[:k])
		if err != nil || len(out) == n || last {
			return out, err
		}
		if k > 0 {
			wait = time.Millisecond
			continue
		}
		if q.fired != nil && !armed {
			if err := q.Notify(ci.NotifyNext); err != nil {
				return out, err
			}
			armed = true
			continue // what came before the arm does not fire
		}
		pause.Reset(wait)
		wait = min(2*wait, 50*time.Millisecond)
		select {
		case <-q.fired:
			armed = false
		case <-pause.C:
		case <-deadline.C:
			last = true
		}
	}
}

// Completions puts completions in words.
func Completions(wcs []ci.WC) string {
	if len(wcs) == 0 {
		return "no completion"
	}
	var b strings.Builder
	for i, wc := range wcs {
		if i > 0 {
			b.WriteString("; ")
		}
		if i == 8 {
			fmt.Fprintf(&b, "and %d more", len(wcs)-i)
			break
		}
		fmt.Fprintf(&b, "request %d: %s", wc.ID, wc.Status.String())
		if wc.Status == ci.WCSuccess {
			fmt.Fprintf(&b, " (op %#x, %d bytes)", uint8(wc.Op), wc.Length)
		} else if wc.VendorErr != 0 {
			fmt.Fprintf(&b, " (vendor %#x)", wc.VendorErr)
		}
	}
	return b.String()
}
