package model

import (
	"cmp"
	"fmt"
	"slices"

	"ciddk/ci"
)

// CQ is a completion queue.
type CQ struct {
	Object
	Size       int // granted
	Moderation ci.Moderation
	// Overrun is set after an overflow. Then nothing is predicted, except that EventCQError is raised.
	Overrun bool
	// armed is the request for the next callback, or nil. Callbacks counts from the creation of the CQ.
	armed     *arming
	Callbacks int // callbacks that must have come
	optional  int // callbacks that may have come beside these
	// CallbackRule is the rule of the last of them.
	CallbackRule Rule

	streams map[stream][]*Completion
	count   int
	vague   bool // a QP of the queue was Loose
	Events  Events
}

// Vague reports whether the number of entries is not predicted.
func (q *CQ) Vague() bool { return q.vague || q.Overrun }

// A stream is a work queue, whose completions are in order. Those of different work queues are not ordered.
type stream struct {
	q    *QP
	recv bool
}

type arming struct {
	solicited bool
	after     int  // completions until the callback; 0: the next that counts
	isOpen    bool // armed in two ways at once, of which the sources do not say which counts
}

// A Completion is a completion that the model has predicted.
type Completion struct {
	WC       ci.WC         // fields as far as they are defined
	Statuses []ci.WCStatus // permitted statuses; WC.Status is the first
	Rule     Rule          // why
	Loose    bool          // every status is permitted

	solicited bool
	q         *QP
	recv      bool
	seq, life int
	anySLID   bool
	anyFlags  ci.WCFlags // which may be set
}

// CreateCQ observes PD.CreateCQ. granted is the size that Query returned.
func (pd *PD) CreateCQ(c ci.CQCreate, granted int, err error) (*CQ, *Violation) {
	const verb = "PD.CreateCQ"
	if !pd.Dead && (c.Size < 1 || c.Size > pd.CA.Attr.MaxCQEs) {
		return nil, wantStatus(verb, err, "CI-CreateCQ-02", ci.InvalidCQSize)
	}
	if v := pd.created(KindCQ, verb, err); v != nil || err != nil {
		return nil, v
	}
	if granted < c.Size {
		return nil, violation("CI-CreateCQ-01", verb, fmt.Sprintf("at least %d entries", c.Size), "%d", granted)
	}
	q := &CQ{Size: granted, streams: map[stream][]*Completion{}}
	q.init(KindCQ, pd.CA, pd)
	return q, nil
}

// Destroy observes CQ.Destroy.
func (q *CQ) Destroy(err error) *Violation { _, v := q.destroy(err); return v }

// Pending returns the number of entries that the queue must have.
func (q *CQ) Pending() int { return q.count }

// Resize observes CQ.Resize.
func (q *CQ) Resize(size, granted int, err error) *Violation {
	const verb = "CQ.Resize"
	if v, ok := q.stale(verb, err); ok {
		return v
	}
	switch {
	case size < 1 || size > q.CA.Attr.MaxCQEs:
		return wantStatus(verb, err, "CI-ResizeCQ-03", ci.InvalidCQSize)
	case size < q.count: // a driver may ignore a request to shrink
		if err != nil {
			return wantStatus(verb, err, "CI-ResizeCQ-02", ci.Overflow)
		}
		if granted < q.count {
			return violation("CI-ResizeCQ-02", verb, "Overflow", "success, for %d entries of %d", granted, q.count)
		}
	default:
		if v := wantStatus(verb, err, "CI-ResizeCQ-01", ci.Success); v != nil {
			return v
		}
	}
	if granted < size {
		return violation("CI-ResizeCQ-01", verb, fmt.Sprintf("at least %d entries", size), "%d", granted)
	}
	q.Size = granted
	return nil
}

// Query observes CQ.Query.
func (q *CQ) Query(got ci.CQAttr, err error) *Violation {
	const verb = "CQ.Query"
	if v, ok := q.stale(verb, err); ok {
		return v
	}
	if v := wantStatus(verb, err, "CI-ResizeCQ-01", ci.Success); v != nil {
		return v
	}
	if got.Size != q.Size {
		return violation("CI-ResizeCQ-01", verb, fmt.Sprintf("size %d, as granted", q.Size), "%d", got.Size)
	}
	if m := q.Moderation; got.Moderation.Count != m.Count || got.Moderation.Period < m.Period {
		return violation("CI-ModifyCQ-01", verb, fmt.Sprintf("%+v", m), "%+v", got.Moderation)
	}
	return nil
}

// Modify observes CQ.Modify. Moderation only delays what is predicted.
func (q *CQ) Modify(m ci.Moderation, err error) *Violation {
	const verb = "CQ.Modify"
	if v, ok := q.stale(verb, err); ok {
		return v
	}
	if !q.CA.Attr.Caps.Has(ci.CapModeration) {
		return wantStatus(verb, err, "CI-Claims-01", ci.Unsupported)
	}
	v := wantStatus(verb, err, "CI-ModifyCQ-01", ci.Success)
	if v == nil {
		q.Moderation = m
	}
	return v
}

// Notify observes CQ.Notify.
func (q *CQ) Notify(when ci.Notify, err error) *Violation {
	const verb = "CQ.Notify"
	if v, ok := q.stale(verb, err); ok {
		return v
	}
	if v := wantStatus(verb, err, "CI-Notify-01", ci.Success); v != nil {
		return v
	}
	switch {
	case q.armed != nil && q.armed.after > 0: // whether the earlier arming remains is open
		q.armed = &arming{solicited: when == ci.NotifySolicited}
		q.optional++
	case when == ci.NotifyNext:
		q.armed = &arming{}
	case q.armed == nil:
		q.armed = &arming{solicited: true}
	}
	return nil
}

// NotifyAfter observes CQ.NotifyAfter.
func (q *CQ) NotifyAfter(n int, err error) *Violation {
	const verb = "CQ.NotifyAfter"
	if v, ok := q.stale(verb, err); ok {
		return v
	}
	if !q.CA.Attr.Caps.Has(ci.CapNotifyAfter) {
		return wantStatus(verb, err, "CI-Claims-01", ci.Unsupported)
	}
	if n < 1 || n > q.Size {
		return wantStatus(verb, err, "CI-NotifyAfter-02", ci.InvalidParameter)
	}
	if v := wantStatus(verb, err, "CI-NotifyAfter-01", ci.Success); v != nil {
		return v
	}
	if q.armed != nil {
		q.optional += 2
	}
	q.armed = &arming{after: n, isOpen: q.armed != nil}
	return nil
}

// Called observes the number of callbacks since the create.
func (q *CQ) Called(n int) *Violation {
	if q.Vague() || n <= q.Callbacks+q.optional {
		return nil
	}
	rule := Rule("CI-Notify-02")
	if q.Dead {
		rule = "SAS-2.1-30"
	} else if q.armed != nil && q.armed.solicited {
		rule = "CI-Notify-04"
	} else if q.armed != nil && q.armed.after > 0 {
		rule = "CI-NotifyAfter-01"
	}
	return violation(rule, "callbacks of a CQ", fmt.Sprint(q.Callbacks), "%d", n)
}

// Peek observes CQ.Peek of a queue at rest.
func (q *CQ) Peek(n int, err error) *Violation {
	if v, ok := q.stale("CQ.Peek", err); ok {
		return v
	}
	if v := wantStatus("CQ.Peek", err, "CI-PeekCQ-01", ci.Success); v != nil || q.Vague() {
		return v
	}
	if n == q.count {
		return nil
	}
	v := violation("CI-PeekCQ-01", "CQ.Peek", fmt.Sprintf("%d entries: %s", q.count, q.describe()), "%d", n)
	v.Doubt = n < q.count
	for _, s := range q.streams { // those that are flushed have a cause
		for _, c := range s {
			if c.Rule != "" && (v.Rule == "CI-PeekCQ-01" || v.Rule == "CI-Flush-01") {
				v.Rule = c.Rule
			}
		}
	}
	return v
}

// describe returns the predicted entries.
func (q *CQ) describe() string {
	s := ""
	for _, list := range q.streams {
		for _, c := range list {
			if s != "" {
				s += ", "
			}
			s += fmt.Sprintf("request %s %v", numberOf(c.WC.ID), c.WC.Status)
		}
	}
	return s
}

// push predicts a completion.
func (q *CQ) push(c *Completion) {
	if q.Overrun {
		return
	}
	if q.count == q.Size {
		q.overflow()
		return
	}
	k := stream{c.q, c.recv}
	q.streams[k] = append(q.streams[k], c)
	q.count++
	a := q.armed
	switch {
	case a == nil:
	case a.after > 1:
		a.after--
	case !a.solicited || c.solicited || c.WC.Status != ci.WCSuccess: // D-55: errors count as solicited
		if q.armed = nil; a.isOpen {
			return
		}
		q.Callbacks++
		q.CallbackRule = "CI-Notify-01"
		if a.solicited {
			q.CallbackRule = "CI-Notify-04"
		}
	}
}

// overflow loses a completion: EventCQError, and the QPs of the queue go to Error (CI-CQError-01). A queue may have
// more room than Query returns.
func (q *CQ) overflow() {
	q.Overrun = true
	q.Events.permit(ci.EventCQError)
	for _, p := range q.CA.w.qps {
		if !p.Dead && (p.SendCQ == q || p.RecvCQ == q) {
			p.loosen()
		}
	}
}

// Poll observes the entries that CQ.Poll returned for space entries.
func (q *CQ) Poll(wcs []ci.WC, space int, err error) *Violation {
	const verb = "CQ.Poll"
	if v, ok := q.stale(verb, err); ok {
		return v
	}
	if v := wantStatus(verb, err, "CI-PollCQ-02", ci.Success); v != nil || q.Overrun {
		return v
	}
	if want := min(space, q.count); len(wcs) < want && !q.vague {
		v := q.Peek(q.count-want+len(wcs), nil)
		v.Where, v.Got = verb, fmt.Sprintf("%d of %d", len(wcs), want)
		return v
	}
	for i := range wcs {
		if v := q.polled(&wcs[i]); v != nil {
			return v
		}
	}
	return nil
}

// polled observes one entry.
func (q *CQ) polled(wc *ci.WC) *Violation {
	const where = "CQ.Poll"
	for k, list := range q.streams {
		i := slices.IndexFunc(list, func(c *Completion) bool { return c.WC.ID == wc.ID })
		if i < 0 {
			continue
		}
		if i > 0 {
			return violation("CI-PollCQ-02", where, "the completion of request "+numberOf(list[0].WC.ID)+" first",
				"%s", describeWC(wc))
		}
		q.streams[k] = list[1:]
		if len(list) == 1 {
			delete(q.streams, k)
		}
		q.count--
		c := list[0]
		if c.q.life == c.life && !c.q.Dead {
			c.q.retire(c)
		}
		return c.check(wc)
	}
	if q.vague {
		return nil
	}
	rule := Rule("CI-PollCQ-02")
	if wc.Status == ci.WCSuccess && !wc.Op.IsRecv() {
		rule = "CI-Signal-01"
	}
	v := violation(rule, where, "no completion that is not due ("+q.describe()+")", "%s", describeWC(wc))
	v.Doubt = wc.Status == ci.WCTimeoutRetryErr || wc.Op.IsRecv()
	return v
}

// check compares an entry with the predicted one.
func (c *Completion) check(got *ci.WC) *Violation {
	want := &c.WC
	where := "completion of request " + numberOf(want.ID)
	rule := c.Rule
	if rule == "" {
		rule = "CI-WC-01"
	}
	if !c.Loose && !slices.Contains(c.Statuses, got.Status) {
		s := ""
		for i, x := range c.Statuses {
			if i > 0 {
				s += " or "
			}
			s += x.String()
		}
		v := violation(rule, where, s, "%s", got.Status)
		v.Doubt = got.Status == ci.WCTimeoutRetryErr
		return v
	}
	diff := func(field string, want, got any) *Violation {
		if want == got {
			return nil
		}
		return violation("CI-WC-01", where+": "+field, fmt.Sprint(want), "%v", got)
	}
	if v := diff("QPN", want.QPN, got.QPN); v != nil {
		return v
	}
	if want.Context != nil && want.Context != got.Context {
		return violation("SAS-2.3-23", where+": Context", "the context of the QP", "%v", got.Context)
	}
	if got.Status != ci.WCSuccess || c.Loose {
		return nil
	}
	if v := diff("Op", want.Op, got.Op); v != nil {
		return v
	}
	if !c.recv { // a driver may leave out the length
		if got.Length == 0 {
			want.Length = 0
		}
		return cmp.Or(diff("Flags", ci.WCFlags(0), got.Flags), diff("Length", want.Length, got.Length))
	}
	list := []*Violation{diff("Length", want.Length, got.Length), diff("Flags", want.Flags, got.Flags&^c.anyFlags)}
	if want.Flags&(ci.WCImmediate|ci.WCInvalidated) != 0 {
		list = append(list, diff("Imm", want.Imm, got.Imm))
	}
	if c.q.Type == ci.UD {
		list = append(list, diff("SrcQP", want.SrcQP, got.SrcQP))
		if !c.anySLID {
			list = append(list, diff("SLID", want.SLID, got.SLID), diff("SL", want.SL, got.SL),
				diff("PathBits", want.PathBits, got.PathBits))
		}
	}
	for _, v := range list {
		if v != nil {
			return v
		}
	}
	return nil
}

// RequestID returns the id of the request with a number.
func RequestID(n uint64) uint64 { return idBits | n }

const idBits = 0xa5c3_e1f0 << 32

// numberOf returns the number of a request, or its whole id if that is not of RequestID.
func numberOf(id uint64) string {
	if id>>32<<32 != idBits {
		return fmt.Sprintf("%#x", id)
	}
	return fmt.Sprint(uint32(id))
}

func describeWC(wc *ci.WC) string {
	if wc.Status != ci.WCSuccess {
		return fmt.Sprintf("request %s of QP %#x: %v", numberOf(wc.ID), uint32(wc.QPN), wc.Status)
	}
	return fmt.Sprintf("request %s of QP %#x: success, Op %d, Length %d", numberOf(wc.ID), uint32(wc.QPN), wc.Op,
		wc.Length)
}

// Events are the events of one object, in order.
type Events struct {
	due      []due
	optional map[ci.EventType]int // events that may be raised, and how often
}

type due struct {
	typ  ci.EventType
	rule Rule
}

// tolerated are events of the vendor's choice, which may be raised at any time (docs/sas/events.md).
var tolerated = []ci.EventType{ci.EventSQError, ci.EventRQError, ci.EventCQOverflow}

func (e *Events) expect(t ci.EventType, rule Rule) { e.due = append(e.due, due{t, rule}) }

func (e *Events) permit(t ci.EventType) {
	if e.optional == nil {
		e.optional = map[ci.EventType]int{}
	}
	e.optional[t]++
}

// Due returns the number of events that must come.
func (e *Events) Due() int { return len(e.due) }

// Missing returns the violation for events that have not come.
func (e *Events) Missing(where string) *Violation {
	if len(e.due) == 0 {
		return nil
	}
	v := violation(e.due[0].rule, where, "the event "+e.due[0].typ.String(), "none")
	v.Doubt = true
	return v
}

// Raised observes an event.
func (e *Events) Raised(where string, t ci.EventType) *Violation {
	for i, d := range e.due {
		if d.typ == t {
			e.due = slices.Delete(e.due, i, i+1)
			return nil
		}
		if d.typ != ci.EventLastWQE && t != ci.EventLastWQE { // which may come before or after its cause
			break
		}
	}
	switch {
	case e.optional[t] > 0:
		e.optional[t]--
		return nil
	case slices.Contains(tolerated, t):
		return nil
	case slices.ContainsFunc(e.due, func(d due) bool { return d.typ == t }):
		return violation("SAS-2.3-21", where, "the event "+e.due[0].typ.String()+" first", "%v", t)
	}
	rule := Rule("SAS-2.3-21")
	if r, ok := eventRules[t]; ok {
		rule = r
	}
	return violation(rule, where, "no event without a cause", "%v", t)
}

// IsOfQueue reports whether an event is one of a QP, a CQ or an SRQ.
func IsOfQueue(t ci.EventType) bool {
	switch t {
	case ci.EventSQError, ci.EventSQDrained, ci.EventRQError, ci.EventCQError, ci.EventQPFatal, ci.EventQPComm,
		ci.EventQPAPM, ci.EventQPAPMError, ci.EventWQReqError, ci.EventWQAccessError, ci.EventSRQLimit,
		ci.EventSRQFatal, ci.EventLastWQE, ci.EventCQOverflow:
		return true
	}
	return false
}

// eventRules has the rules that events without a cause break.
var eventRules = map[ci.EventType]Rule{
	ci.EventSQDrained: "CI-SQD-02", ci.EventQPComm: "CI-EventComm-01", ci.EventSRQLimit: "CI-ModifySRQ-01",
	ci.EventLastWQE: "CI-LastWQE-01", ci.EventCQError: "CI-CQError-01", ci.EventWQAccessError: "IBTA-9.9-05",
	ci.EventWQReqError: "IBTA-9.9-13",
}

// Free returns how many requests can still be posted to the queue's QPs before it may overflow.
func (q *CQ) Free() int {
	n := q.Size - q.count
	for _, p := range q.CA.w.qps {
		if p.Dead {
			continue
		}
		if p.SendCQ == q {
			n -= len(p.sq)
		}
		if p.RecvCQ == q {
			if p.SRQ != nil {
				n -= len(p.SRQ.rq)
			}
			n -= len(p.rq)
		}
	}
	return n
}
