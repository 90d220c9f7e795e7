package ual

import (
	"ciddk/ci"
	"ciddk/kproxy/schema"
)

// PD is a protection domain of the daemon.
type PD struct {
	ci.UnimplementedPD
	ca     *CA
	handle schema.Handle
}

var _ ci.PD = (*PD)(nil)

// Destroy deallocates the domain.
func (p *PD) Destroy() error { return p.ca.c.destroy(p.handle) }

// CreateAV creates an address vector.
func (p *PD) CreateAV(attr ci.AVAttr) (ci.AV, error) {
	var r schema.Created
	q := &schema.CreateAV{PD: p.handle, Attr: schema.NewAVAttr(&attr)}
	if err := p.ca.c.do(schema.CmdCreateAV, q, nil, &r); err != nil {
		return nil, err
	}
	return &AV{pd: p, handle: r.Handle}, nil
}

// AV is an address vector of the daemon.
type AV struct {
	ci.UnimplementedAV
	pd     *PD
	handle schema.Handle
}

var _ ci.AV = (*AV)(nil)

// Destroy destroys the vector.
func (a *AV) Destroy() error { return a.pd.ca.c.destroy(a.handle) }

// Query returns the attributes and the PD.
func (a *AV) Query() (ci.AVAttr, ci.PD, error) {
	var r schema.QueryAVReply
	if err := a.pd.ca.c.do(schema.CmdQueryAV, &schema.AV{AV: a.handle}, nil, &r); err != nil {
		return ci.AVAttr{}, nil, err
	}
	return r.Attr.CI(), a.pd, nil
}

// Modify replaces the vector.
func (a *AV) Modify(attr ci.AVAttr) error {
	q := &schema.ModifyAV{AV: a.handle, Attr: schema.NewAVAttr(&attr)}
	return a.pd.ca.c.do(schema.CmdModifyAV, q, nil, &schema.Changed{})
}
