package kit

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"ciddk/ci"
	"ciddk/validate"
)

// CQ is a completion queue with methods that wait for completions.
type CQ struct {
	ci.CQ
	T      *validate.T
	Events *Events
	// unreliable is true if a QP of a datagram service or of unreliable connection receives into the queue.
	unreliable bool
	seen       seen
	fired      chan struct{} // has a token if a callback came since the last wait; nil with CQWith
}

// CQ creates a queue of at least size entries. Its Wait arms the queue, so a case that tests callbacks uses CQWith.
func (ca *CA) CQ(pd ci.PD, size int) *CQ {
	q := &CQ{T: ca.T, fired: make(chan struct{}, 1)}
	return ca.cq(pd, q, ci.CQCreate{Size: size, OnCompletion: func(any) {
		select {
		case q.fired <- struct{}{}:
		default: // there is a token already, and the waiter polls all completions
		}
	}})
}

// CQWith creates a queue as described by c. Its Wait does not arm the queue. If OnEvent is nil, events are added to
// Events.
func (ca *CA) CQWith(pd ci.PD, c ci.CQCreate) *CQ { return ca.cq(pd, &CQ{T: ca.T}, c) }

func (ca *CA) cq(pd ci.PD, q *CQ, c ci.CQCreate) *CQ {
	q.Events = NewEvents(ca.T)
	if c.OnEvent == nil {
		c.OnEvent = q.Events.Add
	}
	in, err := pd.CreateCQ(c)
	q.CQ = created(ca.T, in, err, fmt.Sprintf("PD.CreateCQ with %d entries", c.Size), "CQ")
	return q
}

// Wait returns the next n completions, whatever their status. The case fails if they have not arrived shortly before
// its deadline.
func (c *CQ) Wait(n int) []ci.WC {
	wc, err := c.collect(n, c.T.Remaining())
	OK(c.T, err, "CQ.Poll or CQ.Notify")
	if len(wc) < n {
		doubt := validate.DoubtTime
		if c.unreliable {
			doubt = validate.DoubtLoss
		}
		c.T.Fail(validate.Failure{
			Where: "completion queue", Expected: fmt.Sprintf("%d completions", n),
			Got: fmt.Sprintf("%d by the deadline: %s", len(wc), Completions(wc)), Doubt: doubt,
		})
	}
	return wc
}

// WaitOK returns the next completions. They must be successful and have these ids, in order.
func (c *CQ) WaitOK(ids ...uint64) []ci.WC {
	wcs := c.Wait(len(ids))
	for i, wc := range wcs {
		if wc.ID != ids[i] || wc.Status != ci.WCSuccess {
			c.T.Fail(validate.Failure{
				Where:    fmt.Sprintf("completion %d of %d", i+1, len(ids)),
				Expected: fmt.Sprintf("request %d: success", ids[i]), Got: Completions(wcs),
				Doubt: DoubtOf(wc.Status, ci.WCSuccess),
			})
		}
	}
	return wcs
}

// WaitStatus returns the next completion. It must have the id and one of the statuses.
func (c *CQ) WaitStatus(id uint64, want ...ci.WCStatus) ci.WC {
	wc := c.Wait(1)[0]
	if wc.ID != id || !slices.Contains(want, wc.Status) {
		c.T.Fail(validate.Failure{
			Where:    fmt.Sprintf("completion on QP %#x", uint32(wc.QPN)),
			Expected: fmt.Sprintf("request %d: %s", id, oneOf(want)), Got: Completions([]ci.WC{wc}),
			Doubt: DoubtOf(wc.Status, want...),
		})
	}
	return wc
}

// DoubtOf returns the doubt of a completion with the status got instead of one of want. Exhausted transport retries
// that were not expected may be a loss on the link.
func DoubtOf(got ci.WCStatus, want ...ci.WCStatus) validate.Doubt {
	if got == ci.WCTimeoutRetryErr && !slices.Contains(want, got) {
		return validate.DoubtLoss
	}
	return ""
}

// Quiet fails the case if a completion arrives within d.
func (c *CQ) Quiet(d time.Duration) {
	if wc, err := c.collect(1, d); err != nil || len(wc) > 0 {
		c.T.Fail(validate.Failure{
			Where: "completion queue", Expected: fmt.Sprintf("no completion for %v", d), Got: orErr(wc, err),
		})
	}
}

// Within returns the completions that arrive within d, at most n.
func (c *CQ) Within(n int, d time.Duration) []ci.WC {
	wc, err := c.collect(n, d)
	OK(c.T, err, "CQ.Poll or CQ.Notify")
	return wc
}

// Empty fails the case if the queue has a completion.
func (c *CQ) Empty() {
	wc := make([]ci.WC, 1)
	if n, err := c.Poll(wc); n != 0 || err != nil {
		c.T.Fail(validate.Failure{Where: "CQ.Poll", Expected: "an empty queue", Got: orErr(wc[:n], err)})
	}
}

func orErr(wc []ci.WC, err error) string {
	if err != nil {
		return Describe(err)
	}
	return Completions(wc)
}

// collect polls until there are n completions, Poll fails, or d is over.
func (c *CQ) collect(n int, d time.Duration) ([]ci.WC, error) {
	deadline := time.NewTimer(d)
	defer deadline.Stop()
	// The timer makes the wait independent of callbacks. Only the cases of the callback rules test whether callbacks
	// come.
	pause := time.NewTimer(time.Millisecond)
	defer pause.Stop()
	var out []ci.WC
	armed, wait := false, time.Millisecond
	for last := false; ; {
		wc := make([]ci.WC, n-len(out))
		k, err := c.Poll(wc)
		if k < 0 || k > len(wc) {
			return out, fmt.Errorf("Poll into %d entries returned %d", len(wc), k)
		}
		out = append(out, wc[:k]...)
		c.seen.add(wc[:k])
		if err != nil || len(out) == n || last {
			return out, err
		}
		if k > 0 {
			wait = time.Millisecond
			continue
		}
		if c.fired != nil && !armed {
			if err := c.Notify(ci.NotifyNext); err != nil {
				return out, err
			}
			armed = true
			continue // completions before Notify cause no callback
		}
		pause.Reset(wait)
		wait = min(2*wait, 50*time.Millisecond)
		select {
		case <-c.fired:
			armed = false
		case <-pause.C:
		case <-deadline.C:
			last = true
		}
	}
}

// Completions describes completions for a message.
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
