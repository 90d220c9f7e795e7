package kproxy

import (
	"os"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
)

func srqAttr(a schema.SRQAttr) ci.SRQAttr {
	return ci.SRQAttr{MaxWR: int(a.MaxWR), MaxSGE: int(a.MaxSGE), Limit: int(a.Limit)}
}

func (c *Session) createSRQ(r *schema.CreateSRQ, files []*os.File) (*Result, error) {
	const verb = "PD.CreateSRQ"
	pd, err := c.lookup(verb, schema.KindPD, r.PD)
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
	create := ci.SRQCreate{SRQAttr: srqAttr(r.Attr)}
	create.User = p.ub
	o := &object{kind: schema.KindSRQ, ca: pd.ca, token: r.Token, async: queueOf(async),
		charge: srqCharge(create.SRQAttr)}
	create.Context = o
	if o.async != nil {
		create.OnEvent = func(e ci.Event) { o.async.event(o, e) }
	}
	return c.create(verb, o, pd, p, func() (destroyable, error) {
		return pd.al.(*accesslayer.PD).NewSRQ(create, nil)
	}, nil, list(async)...)
}

func (c *Session) querySRQ(r *schema.SRQ) (*Result, error) {
	o, err := c.lookup("SRQ.Query", schema.KindSRQ, r.SRQ)
	if err != nil {
		return nil, err
	}
	a, err := o.al.(*accesslayer.SRQ).Query()
	return &Result{Body: &schema.SRQAttr{MaxWR: schema.Int32(a.MaxWR), MaxSGE: schema.Int32(a.MaxSGE),
		Limit: schema.Int32(a.Limit)}}, err
}

func (c *Session) modifySRQ(r *schema.ModifySRQ, files []*os.File) (*Result, error) {
	const verb = "SRQ.Modify"
	o, err := c.lookup(verb, schema.KindSRQ, r.SRQ)
	if err != nil {
		return nil, err
	}
	p, err := o.copyIn(verb, &r.User, files)
	if err != nil {
		return nil, err
	}
	attr, set := srqAttr(r.Attr), ci.SRQField(r.Set)
	attr.User = p.ub
	o.change.Lock()
	defer o.change.Unlock()
	more, resize := charge{}, set&ci.SRQFieldMaxWR != 0
	if resize {
		more = srqCharge(ci.SRQAttr{MaxWR: attr.MaxWR, MaxSGE: int(o.ca.attr.MaxSRQSGEs)})
	}
	if err := c.chargeMore(verb, more); err != nil {
		return nil, err
	}
	if err := o.al.(*accesslayer.SRQ).Modify(set, attr); err != nil {
		c.chargeLess(more)
		return nil, err
	}
	if resize {
		c.mu.Lock()
		c.dropCharge(o.charge)
		o.charge = more
		c.mu.Unlock()
	}
	reply := new(schema.Changed)
	return p.copyOut(&reply.User, &Result{Body: reply}), nil
}
