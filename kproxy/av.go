package kproxy

import (
	"os"

	"ciddk/accesslayer"
	"ciddk/internal/kproxy/schema"
)

func (c *Session) createAV(r *schema.CreateAV, files []*os.File) (*Result, error) {
	const verb = "PD.CreateAV"
	pd, err := c.lookup(verb, schema.KindPD, r.PD)
	if err != nil {
		return nil, err
	}
	p, err := pd.copyIn(verb, &r.User, files)
	if err != nil {
		return nil, err
	}
	attr := r.Attr.CI()
	attr.User = p.ub
	return c.create(verb, &object{kind: schema.KindAV, ca: pd.ca}, pd, p, func() (destroyable, error) {
		return pd.al.(*accesslayer.PD).NewAV(attr)
	}, nil)
}

func (c *Session) queryAV(r *schema.AV) (*Result, error) {
	o, err := c.lookup("AV.Query", schema.KindAV, r.AV)
	if err != nil {
		return nil, err
	}
	attr, _, err := o.al.(*accesslayer.AV).Query()
	return &Result{Body: &schema.QueryAVReply{Attr: schema.NewAVAttr(&attr)}}, err
}

func (c *Session) modifyAV(r *schema.ModifyAV, files []*os.File) (*Result, error) {
	const verb = "AV.Modify"
	o, err := c.lookup(verb, schema.KindAV, r.AV)
	if err != nil {
		return nil, err
	}
	p, err := o.copyIn(verb, &r.User, files)
	if err != nil {
		return nil, err
	}
	attr := r.Attr.CI()
	attr.User = p.ub
	if err := o.al.(*accesslayer.AV).Modify(attr); err != nil {
		return nil, err
	}
	reply := new(schema.Changed)
	return p.copyOut(&reply.User, &Result{Body: reply}), nil
}
