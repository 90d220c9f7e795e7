package accesslayer

import (
	"fmt"
	"sync/atomic"
	"time"

	"ciddk/ci"
)

// QP is a queue pair. It is a ci.QP: Num, PostSend, PostRecv and BindMW go straight to the driver. Destroying it
// detaches it from multicast groups. Its CQs, SRQ and PD are destroyed after it.
type QP struct {
	object
	qpVerbs
	pd             *PD
	sendCQ, recvCQ ci.CQ
	srq            ci.SRQ
	typ            ci.QPType
	timeWait       atomic.Int64 // end of the quarantine in nanoseconds of the clock; 0: none
	linger         atomic.Int64 // its duration from the destruction on, in nanoseconds
}

func (q *QP) Unwrap() any { return q.qpVerbs.QP }

// PD returns the parent.
func (q *QP) PD() *PD { return q.pd }

// NewQP creates a QP in Reset. c names CQs, an SRQ and an RDD of this access layer and HCA. onEvent, which may be nil,
// is called with the QP and its events, one at a time on a goroutine of the access layer; it may run before NewQP has
// returned. c.OnEvent is called as well. Status: as ci.PD.CreateQP; InvalidCQHandle and so on for objects of another
// access layer or HCA and for destroyed ones; InvalidState with ErrClosed.
func (p *PD) NewQP(c ci.QPCreate, onEvent func(*QP, ci.Event)) (*QP, error) {
	return p.newQP("PD.CreateQP", c, onEvent, func(c ci.QPCreate) (ci.QP, error) { return p.verbs.CreateQP(c) })
}

// NewSpecialQP creates QP0, QP1 or a raw QP of a port. Status: as ci.PD.CreateSpecialQP and NewQP.
func (p *PD) NewSpecialQP(port uint8, c ci.QPCreate, onEvent func(*QP, ci.Event)) (*QP, error) {
	return p.newQP("PD.CreateSpecialQP", c, onEvent,
		func(c ci.QPCreate) (ci.QP, error) { return p.verbs.CreateSpecialQP(port, c) })
}

func (p *PD) newQP(verb string, c ci.QPCreate, onEvent func(*QP, ci.Event), create func(ci.QPCreate) (ci.QP,
	error)) (*QP, error) {
	uses := make([]*node, 0, 4)
	uses, err := use(uses, p.ca, verb, kindCQ, "SendCQ", c.SendCQ, func(q *CQ) *CA { return q.pd.ca })
	if err == nil {
		uses, err = use(uses, p.ca, verb, kindCQ, "RecvCQ", c.RecvCQ, func(q *CQ) *CA { return q.pd.ca })
	}
	if err == nil {
		uses, err = use(uses, p.ca, verb, kindSRQ, "SRQ", c.SRQ, func(s *SRQ) *CA { return s.pd.ca })
	}
	if err == nil {
		uses, err = use(uses, p.ca, verb, kindRDD, "RDD", c.RDD, func(r *RDD) *CA { return r.pd.ca })
	}
	if err != nil {
		return nil, err
	}
	q := &QP{pd: p, sendCQ: c.SendCQ, recvCQ: c.RecvCQ, srq: c.SRQ, typ: c.Type}
	q.n = &node{kind: kindQP, obj: q}
	if event := c.OnEvent; event != nil || onEvent != nil {
		c.OnEvent = func(e ci.Event) {
			q.n.callback(func() {
				if onEvent != nil {
					onEvent(q, e)
				}
				if event != nil {
					event(e)
				}
			})
		}
	}
	err = q.n.make(p.n, verb, func() (func() error, error) {
		in, err := create(c)
		q.qpVerbs.QP = in
		return q.destroyDrivers, err
	}, uses...)
	return made(q, err)
}

func (q *QP) destroyDrivers() error {
	if left := max(q.timeWaitLeft(), time.Duration(q.linger.Load())); left > 0 {
		q.qpVerbs.TimeWait(left)
	}
	return q.qpVerbs.Destroy()
}

// Linger quarantines the number of the QP for d from its destruction on. A connection manager calls it for a QP whose
// connection may end together with it, such as that of another process. It does not restrict the QP's states.
func (q *QP) Linger(d time.Duration) { q.linger.Store(int64(d)) }

// TimeWait quarantines the number of the QP for d from now on. A connection manager calls it when a connection ends
// (IBTA volume 1, 12.9.8.4). During that time, an RC or UC QP can only be moved to Error, Reset or Init. If the QP is
// destroyed before, the rest of the time is passed to the driver. TimeWait may be called from callbacks.
func (q *QP) TimeWait(d time.Duration) {
	until := int64(0)
	if d > 0 {
		until = int64(q.n.al.cfg.Clock.Elapsed() + d)
	}
	q.timeWait.Store(until)
}

func (q *QP) timeWaitLeft() time.Duration {
	until := q.timeWait.Load()
	if until == 0 {
		return 0
	}
	return time.Duration(until) - q.n.al.cfg.Clock.Elapsed()
}

// Query returns the attributes. Status: as ci.QP.Query; InvalidQPHandle with ErrClosed.
func (q *QP) Query() (attr ci.QPAttr, err error) {
	err = q.n.during("QP.Query", func() error { attr, err = q.qpVerbs.Query(); return err })
	if err == nil {
		attr.PD, attr.SendCQ = q.pd.CI(), q.sendCQ
		attr.RecvCQ, attr.SRQ = q.recvCQ, q.srq
	}
	return attr, err
}

// Modify moves the QP to another state, or changes attributes. Status: as ci.QP.Modify; QPInTimewait; InvalidQPHandle
// with ErrClosed.
func (q *QP) Modify(set ci.QPField, attr ci.QPAttr) error {
	const verb = "QP.Modify"
	return q.n.during(verb, func() error {
		if left := q.timeWaitLeft(); left > 0 && set&ci.QPFieldState != 0 && (q.typ == ci.RC || q.typ == ci.UC) &&
			attr.State != ci.QPError && attr.State != ci.QPReset && attr.State != ci.QPInit {
			return &ci.Error{Verb: verb, Status: ci.QPInTimewait, Detail: fmt.Sprintf("for another %v; only Error, "+
				"Reset and Init are allowed", left)}
		}
		return q.qpVerbs.Modify(set, attr)
	})
}

// AttachMcast attaches the QP to a multicast group, so that it receives the group's packets. The result is a *Mcast. On
// InfiniBand, the subnet forwards packets of the group only to ports that are members at the subnet administrator
// (sa.Client.Join). Status: as ci.QP.AttachMcast; InvalidState with ErrClosed.
func (q *QP) AttachMcast(c ci.McastAttach) (ci.Mcast, error) {
	m := &Mcast{}
	m.n = &node{kind: kindMcast, obj: m}
	err := m.n.make(q.n, "QP.AttachMcast", func() (func() error, error) {
		in, err := q.qpVerbs.AttachMcast(c)
		m.mcastVerbs.Mcast = in
		return destroyer(in), err
	})
	return asCI[ci.Mcast](m, err)
}

// Mcast is the attachment of a QP to a multicast group. It is a ci.Mcast.
type Mcast struct {
	object
	mcastVerbs
}

func (m *Mcast) Unwrap() any { return m.mcastVerbs.Mcast }
