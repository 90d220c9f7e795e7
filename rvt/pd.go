package rvt

import "ciddk/ci"

// PD is a protection domain.
type PD struct {
	ci.UnimplementedPD
	refs
	ca *CA
}

// newPD counts and makes one.
func (c *CA) newPD(verb string, typ ci.PDType) (*PD, error) {
	if typ > ci.PDDatagram || typ == ci.PDAlias {
		return nil, failf(verb, ci.InvalidParameter, "PD type")
	}
	if !c.get() {
		return nil, fail(verb, ci.InvalidCAHandle)
	}
	if !c.hca.take(kindPD, c.hca.attr.MaxPDs) {
		c.put()
		return nil, fail(verb, ci.InsufficientResources)
	}
	return &PD{ca: c}, nil
}

// Destroy deallocates the domain; ResourceBusy while anything made from it exists.
func (p *PD) Destroy() error {
	if err := p.kill("PD.Destroy", ci.InvalidPDHandle); err != nil {
		return err
	}
	p.ca.hca.drop(kindPD)
	p.ca.put()
	return nil
}

// child takes a reference for a new object of kind k, and counts it. The caller undoes it with unchild.
func (p *PD) child(verb string, k kind, most int) error {
	if !p.get() {
		return fail(verb, ci.InvalidPDHandle)
	}
	if !p.ca.hca.take(k, most) {
		p.put()
		return failf(verb, ci.InsufficientResources, "the limit of CAAttr is reached")
	}
	return nil
}

func (p *PD) unchild(k kind) {
	p.ca.hca.drop(k)
	p.put()
}
