package ual

import (
	"sync"
	"time"

	"ciddk/ci"
	"ciddk/kproxy/schema"
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
	send   sync.Mutex // of posts, which can take several messages
	recv   sync.Mutex
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
	req := &schema.CreateQP{PD: p.handle, Async: p.ca.async.handle, Caps: schema.NewQPCaps(c.QPCaps), Type: c.Type,
		Flags:  c.Flags,
		SendCQ: handleAs[*CQ](p.ca, c.SendCQ), RecvCQ: handleAs[*CQ](p.ca, c.RecvCQ), SRQ: handleAs[*SRQ](p.ca, c.SRQ)}
	if c.SRQ != nil && req.SRQ == 0 { // zero would be a QP with a receive queue of its own
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidSRQHandle, Detail: "SRQ is not an object of this CA"}
	}
	p.ca.c.tokens.add(&q.events)
	req.Token = q.events.token
	var r schema.CreateQPReply
	if err := p.ca.c.do(schema.CmdCreateQP, req, nil, &r); err != nil {
		p.ca.c.tokens.remove(&q.events)
		return nil, err
	}
	q.handle, q.num = r.Handle, r.Num
	return q, nil
}

// Destroy destroys the QP.
func (q *QP) Destroy() error {
	reply, err := q.ca.c.destroyEvents(q.handle, &q.events)
	if err != nil {
		return err
	}
	q.ca.c.retire(&q.events, reply.Waiting == 0, q.create.SendCQ, q.create.RecvCQ)
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
func (q *QP) Modify(set ci.QPField, a ci.QPAttr) error {
	req := &schema.ModifyQP{QP: q.handle, Set: set, Attr: schema.NewQPAttr(&a)}
	return q.ca.c.do(schema.CmdModifyQP, req, nil, &schema.Changed{})
}

// AttachMcast attaches the QP to a group.
func (q *QP) AttachMcast(c ci.McastAttach) (ci.Mcast, error) {
	var r schema.Created
	req := &schema.AttachMcast{QP: q.handle, GID: c.GID, LID: c.LID}
	if err := q.ca.c.do(schema.CmdAttachMcast, req, nil, &r); err != nil {
		return nil, err
	}
	return &Mcast{ca: q.ca, handle: r.Handle}, nil
}

// Mcast is a membership of the daemon.
type Mcast struct {
	ci.UnimplementedMcast
	ca     *CA
	handle schema.Handle
}

var _ ci.Mcast = (*Mcast)(nil)

// Destroy detaches the QP.
func (m *Mcast) Destroy() error { return m.ca.c.destroy(m.handle) }
