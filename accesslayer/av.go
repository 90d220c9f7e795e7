package accesslayer

import "ciddk/ci"

// NewAV makes an address vector; it may be called from callbacks. Status: as ci.PD.CreateAV; InvalidState with ErrClosed.
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

// AV is an address vector. It is a ci.AV, too, so that it fits into ci.Dest. The client waits for the sends that use it before it
// destroys it.
type AV struct {
	object
	avVerbs
	pd *PD
}

func (a *AV) Unwrap() any { return a.avVerbs.AV }

// Query returns what was set, and the PD.
func (a *AV) Query() (attr ci.AVAttr, pd ci.PD, err error) {
	err = a.n.during("AV.Query", func() error { attr, _, err = a.avVerbs.Query(); return err })
	if err != nil {
		return attr, nil, err
	}
	return attr, a.pd.CI(), nil
}

// Modify replaces the whole vector.
func (a *AV) Modify(attr ci.AVAttr) error {
	return a.n.during("AV.Modify", func() error { return a.avVerbs.Modify(attr) })
}
