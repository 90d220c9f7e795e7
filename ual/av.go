package ual

import (
	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
)

// AV is an address vector of the daemon. It has no handle if the library did all the work of its create.
type AV struct {
	ci.UnimplementedAV
	pd     *PD
	handle schema.Handle
	state  any // the library's
}

var _ ci.AV = (*AV)(nil)

// CreateAV creates an address vector.
func (p *PD) CreateAV(attr ci.AVAttr) (ci.AV, error) {
	av := &AV{pd: p}
	a := &ci.UserCreateAV{PD: p.state, Attr: attr}
	v := verbKind{verb: "PD.CreateAV", data: true, finish: true}
	_, err := aroundFallible(p.ca, p.state, p.ca.hooks().CreateAV, a, v, func(x private) error {
		var r schema.Created
		q := &schema.CreateAV{PD: p.handle, Attr: schema.NewAVAttr(&a.Attr)}
		err := p.ca.c.doUser(schema.CmdCreateAV, q, &r, &q.User, &r.User, x)
		av.handle = r.Handle
		return err
	}, func() { _ = p.ca.c.destroy(av.handle) }) // the application receives the error of Post
	if err != nil {
		return nil, err
	}
	av.state = a.AV
	return av, nil
}

// Destroy destroys the vector.
func (a *AV) Destroy() error {
	c, v := a.pd.ca, verbKind{verb: "AV.Destroy", finish: true}
	return around(c, a.state, c.hooks().DestroyAV, &ci.UserDestroyAV{AV: a.state}, v, func(private) error {
		if a.handle == 0 {
			return nil
		}
		return c.c.destroy(a.handle)
	})
}

// Query returns the attributes and the PD.
func (a *AV) Query() (ci.AVAttr, ci.PD, error) {
	c, v := a.pd.ca, verbKind{verb: "AV.Query", finish: true}
	x := &ci.UserQueryAV{AV: a.state}
	err := around(c, a.state, c.hooks().QueryAV, x, v, func(private) error {
		var r schema.QueryAVReply
		err := c.c.do(schema.CmdQueryAV, &schema.AV{AV: a.handle}, nil, &r)
		x.Attr = r.Attr.CI()
		return err
	})
	if err != nil {
		return ci.AVAttr{}, nil, err
	}
	return x.Attr, a.pd, nil
}

// Modify replaces the vector.
func (a *AV) Modify(attr ci.AVAttr) error {
	c, v := a.pd.ca, verbKind{verb: "AV.Modify", data: true, finish: true, postAfterFinish: true}
	x := &ci.UserModifyAV{AV: a.state, Attr: attr}
	return around(c, a.state, c.hooks().ModifyAV, x, v, func(p private) error {
		var r schema.Changed
		q := &schema.ModifyAV{AV: a.handle, Attr: schema.NewAVAttr(&x.Attr)}
		return c.c.doUser(schema.CmdModifyAV, q, &r, &q.User, &r.User, p)
	})
}
