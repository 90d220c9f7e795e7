package accesslayer

import "ciddk/ci"

// PD is a protection domain. Destroying it destroys everything that was created from it: windows first, then the other
// objects, newest first. CI returns its plain view.
type PD struct {
	object
	verbs pdVerbs
	ca    *CA
}

func (p *PD) Unwrap() any { return p.verbs.PD }

// CA returns the open that the PD was created from.
func (p *PD) CA() *CA { return p.ca }

func newPD(parent *node, ca *CA, verb string, typ ci.PDType, create func() (ci.PD, error)) (*PD, error) {
	if typ == ci.PDAlias {
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: "PDAlias is reserved for MAD services " +
			"(use PDNormal)"}
	}
	p := &PD{ca: ca}
	p.n = &node{kind: kindPD, obj: p}
	err := p.n.make(parent, verb, func() (func() error, error) {
		in, err := create()
		p.verbs.PD = in
		return destroyer(in), err
	})
	return made(p, err)
}
