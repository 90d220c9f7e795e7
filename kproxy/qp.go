package kproxy

import (
	"os"
	"time"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
)

// qpObjects are the objects that a QP uses.
type qpObjects struct{ send, recv, srq, async *object }

func (c *Session) qpObjects(verb string, r *schema.CreateQP) (u qpObjects, err error) {
	if u.send, err = c.optional(verb, schema.KindCQ, r.SendCQ); err != nil {
		return u, err
	}
	if u.recv, err = c.optional(verb, schema.KindCQ, r.RecvCQ); err != nil {
		return u, err
	}
	if u.srq, err = c.optional(verb, schema.KindSRQ, r.SRQ); err != nil {
		return u, err
	}
	u.async, err = c.optional(verb, schema.KindEventQueue, r.Async)
	return u, err
}

func (c *Session) createQP(r *schema.CreateQP, files []*os.File) (*Result, error) {
	const verb = "PD.CreateQP"
	pd, err := c.lookup(verb, schema.KindPD, r.PD)
	if err != nil {
		return nil, err
	}
	switch r.Type {
	case ci.RC, ci.UC, ci.UD:
	case ci.RD:
		return nil, failf(verb, ci.Unsupported, "reliable datagrams")
	default:
		return nil, failf(verb, ci.InvalidServiceType, "a QP of type %v is not created for a client", r.Type)
	}
	u, err := c.qpObjects(verb, r)
	if err != nil {
		return nil, err
	}
	p, err := pd.copyIn(verb, &r.User, files)
	if err != nil {
		return nil, err
	}
	create := ci.QPCreate{QPCaps: r.Caps.CI(), Type: r.Type, Flags: r.Flags, SendCQ: asObject[ci.CQ](u.send),
		RecvCQ: asObject[ci.CQ](u.recv), SRQ: asObject[ci.SRQ](u.srq), User: p.ub}
	o := &object{kind: schema.KindQP, ca: pd.ca, token: r.Token, async: queueOf(u.async),
		charge: qpCharge(create.QPCaps),
		qpType: r.Type}
	create.Context = o
	// A client that breaks a promise of these flags would make the driver's queues inconsistent.
	create.Flags &^= ci.QPClientSyncSend | ci.QPClientSyncRecv | ci.QPNoOverflow
	if o.async != nil {
		create.OnEvent = func(e ci.Event) { o.async.event(o, e) }
	}
	reply := new(schema.CreateQPReply)
	return c.create(verb, o, pd, p, func() (destroyable, error) {
		return pd.al.(*accesslayer.PD).NewQP(create, nil)
	}, func() (*Result, *schema.UserBufferReply) {
		qp := o.al.(*accesslayer.QP)
		reply.Handle, reply.Num = o.handle, qp.Num()
		if attr, err := qp.Query(); err == nil {
			reply.Caps = schema.NewQPCaps(attr.QPCaps)
		}
		return &Result{Body: reply}, &reply.User
	}, list(u.send, u.recv, u.srq, u.async)...)
}

func (c *Session) queryQP(r *schema.QP) (*Result, error) {
	o, err := c.lookup("QP.Query", schema.KindQP, r.QP)
	if err != nil {
		return nil, err
	}
	attr, err := o.al.(*accesslayer.QP).Query()
	return &Result{Body: new(schema.NewQPAttr(&attr))}, err
}

// privilegedQKey is the bit of the Q_Keys that a work request cannot set (IBTA volume 1, 10.2.5), such as that of QP1.
// A client that could set one in its QP would send datagrams of the connection manager to the QP1 of peers, as the
// daemon does, and could end the connections of other clients.
const privilegedQKey = 1 << 31

func (c *Session) modifyQP(r *schema.ModifyQP, files []*os.File) (*Result, error) {
	const verb = "QP.Modify"
	o, err := c.lookup(verb, schema.KindQP, r.QP)
	if err != nil {
		return nil, err
	}
	p, err := o.copyIn(verb, &r.User, files)
	if err != nil {
		return nil, err
	}
	attr := r.Attr.CI()
	attr.User = p.ub
	if r.Set&ci.QPFieldQKey != 0 && attr.QKey&privilegedQKey != 0 {
		if err := c.privileged(verb); err != nil {
			return nil, err
		}
	}
	o.change.Lock()
	defer o.change.Unlock()
	more, resize := charge{}, r.Set&(ci.QPFieldSendDepth|ci.QPFieldRecvDepth) != 0
	if resize {
		caps := attr.QPCaps
		caps.SendSGE, caps.RecvSGE, caps.MaxInline = o.ca.attr.MaxSGEs, o.ca.attr.MaxSGEs, o.ca.attr.MaxInline
		more = qpCharge(caps)
	}
	if err := c.chargeMore(verb, more); err != nil {
		return nil, err
	}
	if err := o.al.(*accesslayer.QP).Modify(r.Set, attr); err != nil {
		c.chargeLess(more)
		return nil, err
	}
	if resize {
		c.resized(o, more)
	}
	reply := new(schema.Changed)
	return p.copyOut(&reply.User, &Result{Body: reply}), nil
}

// resized replaces the charge of a QP by that of the queues that it has now. more was charged for the change.
func (c *Session) resized(o *object, more charge) {
	attr, err := o.al.(*accesslayer.QP).Query()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		o.charge.queue += more.queue
		return
	}
	now := qpCharge(attr.QPCaps)
	c.used.queueBytes += now.queue - o.charge.queue - more.queue
	o.charge = now
}

func (c *Session) timeWait(r *schema.TimeWait) (*Result, error) {
	o, err := c.lookup("QP.TimeWait", schema.KindQP, r.QP)
	if err != nil {
		return nil, err
	}
	o.al.(*accesslayer.QP).TimeWait(min(time.Duration(r.Duration), maxTimeWait))
	return &Result{Body: &schema.None{}}, nil
}

// maxTimeWait is the longest time for which a client can keep a QP number from others: the longest time-wait of the
// daemon's connection manager (cm.Config.TimeWaitLimit). An adapter may have no more numbers than QPs.
const maxTimeWait = 2 * time.Minute

func (c *Session) attachMcast(r *schema.AttachMcast, files []*os.File) (*Result, error) {
	const verb = "QP.AttachMcast"
	qp, err := c.lookup(verb, schema.KindQP, r.QP)
	if err != nil {
		return nil, err
	}
	p, err := qp.copyIn(verb, &r.User, files)
	if err != nil {
		return nil, err
	}
	return c.create(verb, &object{kind: schema.KindMcast, ca: qp.ca}, qp, p, func() (destroyable, error) {
		return qp.al.(*accesslayer.QP).AttachMcast(ci.McastAttach{GID: r.GID, LID: r.LID, User: p.ub})
	}, nil)
}
