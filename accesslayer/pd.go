package accesslayer

import "ciddk/ci"

// PD is a protection domain. Its destruction takes everything made from it: windows first, then the rest, newest first. It is a ci.PD,
// too: the verbs of that interface do the same as New…, in other types.
type PD struct {
	object
	verbs pdVerbs
	ca    *CA
}

func (p *PD) Unwrap() any { return p.verbs.PD }

// CA is the open that the PD was made from.
func (p *PD) CA() *CA { return p.ca }

func newPD(parent *node, ca *CA, verb string, typ ci.PDType, create func() (ci.PD, error)) (*PD, error) {
	if typ == ci.PDAlias {
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: "PDAlias stands for the PD of the access layer's own special QPs: use PDNormal"}
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
