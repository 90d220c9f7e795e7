package kproxy

import (
	"os"
	"time"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
)

func (c *Session) createCQ(r *schema.CreateCQ, files []*os.File) (*Result, error) {
	const verb = "PD.CreateCQ"
	pd, err := c.lookup(verb, schema.KindPD, r.PD)
	if err != nil {
		return nil, err
	}
	completions, err := c.optional(verb, schema.KindEventQueue, r.Completions)
	if err != nil {
		return nil, err
	}
	async, err := c.optional(verb, schema.KindEventQueue, r.Async)
	if err != nil {
		return nil, err
	}
	p, err := pd.copyIn(verb, &r.User, files)
	if err != nil {
		return nil, err
	}
	o := &object{kind: schema.KindCQ, ca: pd.ca, token: r.Token, completions: queueOf(completions),
		async:  queueOf(async),
		charge: cqCharge(int(r.Size))}
	create := ci.CQCreate{Size: int(r.Size), Context: o, User: p.ub, Affinity: ci.Affinity{Vector: r.Vector,
		Group: r.Group, Mask: r.Affinity}}
	if o.completions != nil {
		create.OnCompletion = func(any) { o.completions.completion(o) }
	}
	if o.async != nil {
		create.OnEvent = func(e ci.Event) { o.async.event(o, e) }
	}
	reply := new(schema.CreateCQReply)
	return c.create(verb, o, pd, p, func() (destroyable, error) {
		return pd.al.(*accesslayer.PD).NewCQ(create, accesslayer.CQHandler{})
	}, func() (*Result, *schema.UserBufferReply) {
		reply.Handle = o.handle
		if attr, err := o.al.(*accesslayer.CQ).Query(); err == nil {
			reply.Size = schema.Int32(attr.Size)
		}
		return &Result{Body: reply}, &reply.User
	}, list(completions, async)...)
}

func (c *Session) queryCQ(r *schema.CQ) (*Result, error) {
	o, err := c.lookup("CQ.Query", schema.KindCQ, r.CQ)
	if err != nil {
		return nil, err
	}
	attr, err := o.al.(*accesslayer.CQ).Query()
	return &Result{Body: &schema.QueryCQReply{Size: schema.Int32(attr.Size), Count: schema.Int32(attr.Moderation.Count),
		Period: int64(attr.Moderation.Period)}}, err
}

func (c *Session) resizeCQ(r *schema.ResizeCQ, files []*os.File) (*Result, error) {
	const verb = "CQ.Resize"
	o, err := c.lookup(verb, schema.KindCQ, r.CQ)
	if err != nil {
		return nil, err
	}
	p, err := o.copyIn(verb, &r.User, files)
	if err != nil {
		return nil, err
	}
	o.change.Lock()
	defer o.change.Unlock()
	// Both sizes are charged during the verb, since a driver holds both queues while it moves the entries.
	now := cqCharge(int(r.Size))
	if err := c.chargeMore(verb, now); err != nil {
		return nil, err
	}
	size, err := o.al.(*accesslayer.CQ).Resize(ci.CQResize{Size: int(r.Size), User: p.ub})
	if err != nil {
		c.chargeLess(now)
		return nil, err
	}
	c.mu.Lock()
	c.dropCharge(o.charge)
	o.charge = now
	c.mu.Unlock()
	reply := &schema.ResizeCQReply{Size: schema.Int32(size)}
	return p.copyOut(&reply.User, &Result{Body: reply}), nil
}

// chargeMore and chargeLess change the client's usage.
func (c *Session) chargeMore(verb string, x charge) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.addCharge(verb, x)
}

func (c *Session) chargeLess(x charge) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropCharge(x)
}

func (c *Session) modifyCQ(r *schema.ModifyCQ) (*Result, error) {
	o, err := c.lookup("CQ.Modify", schema.KindCQ, r.CQ)
	if err != nil {
		return nil, err
	}
	err = o.al.(*accesslayer.CQ).Modify(ci.Moderation{Count: int(r.Count), Period: time.Duration(r.Period)})
	return &Result{Body: &schema.None{}}, err
}
