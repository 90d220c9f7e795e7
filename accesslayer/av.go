package accesslayer

import "ciddk/ci"

// NewAV creates an address vector. It may be called from callbacks. Status: as ci.PD.CreateAV; InvalidState with
// ErrClosed.
func (p *PD) NewAV(attr ci.AVAttr) (*AV, error) {
	const verb = "PD.CreateAV"
	av := &AV{pd: p}
	av.n = &node{kind: kindAV, obj: av}
	err := av.n.make(p.n, verb, func() (func() error, error) {
		in, err := p.verbs.CreateAV(attr)
		av.avVerbs.AV = in
		return destroyer(in), err
	})
	return made(av, err)
}

// AV is an address vector. It is a ci.AV, the type of ci.Dest.AV. The client destroys it after the sends that use it
// have completed.
type AV struct {
	object
	avVerbs
	pd *PD
}

func (a *AV) Unwrap() any { return a.avVerbs.AV }

// Query returns the attributes and the PD.
func (a *AV) Query() (attr ci.AVAttr, pd ci.PD, err error) {
	err = a.n.during("AV.Query", func() error { attr, _, err = a.avVerbs.Query(); return err })
	if err != nil {
		return attr, nil, err
	}
	return attr, a.pd.CI(), nil
}

// Modify replaces all attributes.
func (a *AV) Modify(attr ci.AVAttr) error {
	return a.n.during("AV.Modify", func() error { return a.avVerbs.Modify(attr) })
}
