package ual

import (
	"sync"
	"sync/atomic"
	"time"

	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
)

// QP is a queue pair of the daemon.
type QP struct {
	ci.UnimplementedQP
	ca     *CA
	pd     *PD
	handle schema.Handle
	num    ci.QPN
	create ci.QPCreate // the consumer's arguments
	events receiver
	user   ci.UserQP  // the library's
	send   sync.Mutex // of posts, which can take several messages
	recv   sync.Mutex
	sent   atomic.Bool // a request was posted to the send queue, by message
	recvd  atomic.Bool // and to the receive queue
}

var _ ci.QP = (*QP)(nil)

// CreateQP creates a QP.
func (p *PD) CreateQP(c ci.QPCreate) (ci.QP, error) {
	const verb = "PD.CreateQP"
	if c.RDD != nil {
		return nil, &ci.Error{Verb: verb, Status: ci.Unsupported, Detail: "reliable datagrams"}
	}
	q := &QP{ca: p.ca, pd: p, create: c}
	q.events = receiver{context: c.Context, onEvent: c.OnEvent, drained: p.ca.drained}
	if c.SRQ != nil && handleAs[*SRQ](p.ca, c.SRQ) == 0 { // zero would be a QP with a receive queue of its own
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidSRQHandle, Detail: "SRQ is not an object of this CA"}
	}
	p.ca.c.tokens.add(&q.events)
	a := &ci.UserCreateQP{PD: p.state, Create: c}
	_, err := aroundFallible(p.ca, p.state, p.ca.hooks().CreateQP, a, verbKind{verb: verb, data: true},
		func(x private) error {
			return q.createQP(a, x)
		}, func() { _, _ = p.ca.c.destroyEvents(q.handle, &q.events) }) // the application receives the error of Post
	if err != nil {
		p.ca.c.tokens.remove(&q.events)
		return nil, err
	}
	q.user = a.QP
	return q, nil
}

// usedCQs returns the CQs that can have completions of the QP: those of the queues to which requests were posted. The
// others are nil.
func (q *QP) usedCQs() (send, recv ci.CQ) {
	if q.sent.Load() || q.user.PostSend != nil || q.user.BindMW != nil {
		send = q.create.SendCQ
	}
	if q.recvd.Load() || q.user.PostRecv != nil || q.create.SRQ != nil {
		recv = q.create.RecvCQ
	}
	return send, recv
}

// note sets a flag. It writes once, so that later posts only read.
func note(flag *atomic.Bool) {
	if !flag.Load() {
		flag.Store(true)
	}
}

// createQP creates the QP in the daemon.
func (q *QP) createQP(a *ci.UserCreateQP, p private) error {
	c := &a.Create
	req := &schema.CreateQP{PD: q.pd.handle, Token: q.events.token, Async: q.ca.async.handle,
		Caps: schema.NewQPCaps(c.QPCaps), Type: c.Type, Flags: c.Flags, SendCQ: handleAs[*CQ](q.ca, c.SendCQ),
		RecvCQ: handleAs[*CQ](q.ca, c.RecvCQ), SRQ: handleAs[*SRQ](q.ca, c.SRQ)}
	var r schema.CreateQPReply
	if err := q.ca.c.doUser(schema.CmdCreateQP, req, &r, &req.User, &r.User, p); err != nil {
		return err
	}
	q.handle, q.num, a.Num = r.Handle, r.Num, r.Num
	if p.ub != nil { // the library accompanies the QP
		var err error
		if a.Attr, err = q.query(); err != nil {
			_, _ = q.ca.c.destroyEvents(q.handle, &q.events) // the application receives the error of the query
			return err
		}
	}
	return nil
}

// Destroy destroys the QP.
func (q *QP) Destroy() error {
	var reply schema.DestroyReply
	a, v := &ci.UserDestroyQP{QP: q.user.Handle}, verbKind{verb: "QP.Destroy"}
	err := around(q.ca, q.user.Handle, q.ca.hooks().DestroyQP, a, v, func(private) (err error) {
		reply, err = q.ca.c.destroyEvents(q.handle, &q.events)
		return err
	})
	if err != nil {
		return err
	}
	send, recv := q.usedCQs()
	q.ca.c.retire(&q.events, reply.Waiting == 0, send, recv)
	return nil
}

// Num returns the QP number.
func (q *QP) Num() ci.QPN { return q.num }

// TimeWait quarantines the QP number after Destroy.
func (q *QP) TimeWait(d time.Duration) {
	// The verb has no result; a QP that does not exist needs no quarantine.
	_ = q.ca.c.do(schema.CmdTimeWait, &schema.TimeWait{QP: q.handle, Duration: int64(d)}, nil, &schema.None{})
}

// Query returns the attributes, with the objects that the QP was created with.
func (q *QP) Query() (ci.QPAttr, error) {
	a, v := &ci.UserQueryQP{QP: q.user.Handle}, verbKind{verb: "QP.Query"}
	err := around(q.ca, q.user.Handle, q.ca.hooks().QueryQP, a, v, func(private) (err error) {
		a.Attr, err = q.query()
		return err
	})
	if err != nil {
		return ci.QPAttr{}, err
	}
	return a.Attr, nil
}

// query queries the QP in the daemon.
func (q *QP) query() (ci.QPAttr, error) {
	var r schema.QPAttr
	if err := q.ca.c.do(schema.CmdQueryQP, &schema.QP{QP: q.handle}, nil, &r); err != nil {
		return ci.QPAttr{}, err
	}
	a := r.CI()
	a.Flags = q.create.Flags
	a.PD, a.SRQ = q.pd, q.create.SRQ
	a.SendCQ, a.RecvCQ = q.create.SendCQ, q.create.RecvCQ
	return a, nil
}

// Modify sets attributes.
func (q *QP) Modify(set ci.QPField, attr ci.QPAttr) error {
	a, v := &ci.UserModifyQP{QP: q.user.Handle, Set: set, Attr: attr}, verbKind{verb: "QP.Modify", data: true}
	return around(q.ca, q.user.Handle, q.ca.hooks().ModifyQP, a, v, func(p private) error {
		var r schema.Changed
		req := &schema.ModifyQP{QP: q.handle, Set: a.Set, Attr: schema.NewQPAttr(&a.Attr)}
		return q.ca.c.doUser(schema.CmdModifyQP, req, &r, &req.User, &r.User, p)
	})
}

// AttachMcast attaches the QP to a group.
func (q *QP) AttachMcast(c ci.McastAttach) (ci.Mcast, error) {
	m := &Mcast{ca: q.ca}
	a, v := &ci.UserAttachMcast{QP: q.user.Handle, Attach: c}, verbKind{verb: "QP.AttachMcast", data: true}
	_, err := aroundFallible(q.ca, q.user.Handle, q.ca.hooks().AttachMcast, a, v, func(p private) error {
		var r schema.Created
		req := &schema.AttachMcast{QP: q.handle, GID: a.Attach.GID, LID: a.Attach.LID}
		err := q.ca.c.doUser(schema.CmdAttachMcast, req, &r, &req.User, &r.User, p)
		m.handle = r.Handle
		return err
	}, func() { _ = q.ca.c.destroy(m.handle) }) // the application receives the error of Post
	if err != nil {
		return nil, err
	}
	m.state = a.Mcast
	return m, nil
}

// Mcast is a membership of the daemon.
type Mcast struct {
	ci.UnimplementedMcast
	ca     *CA
	handle schema.Handle
	state  any // the library's
}

var _ ci.Mcast = (*Mcast)(nil)

// Destroy detaches the QP.
func (m *Mcast) Destroy() error {
	a, v := &ci.UserDestroyMcast{Mcast: m.state}, verbKind{verb: "Mcast.Destroy"}
	return around(m.ca, m.state, m.ca.hooks().DestroyMcast, a, v,
		func(private) error { return m.ca.c.destroy(m.handle) })
}
