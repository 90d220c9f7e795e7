package mutant

import (
	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate/mutant/tap"
)

// Nothing returns mutants with faults in handling arguments that are nil.
func Nothing() []Mutant {
	m := func(name, breaks, does string, needs ci.Caps, l ciwrap.Layer) Mutant {
		return Of(name, breaks, does, tap.Layer(l)).Needing(needs)
	}
	pd := func(f func(p ciwrap.PD) ci.PD) ciwrap.Layer {
		return ciwrap.Layer{PD: func(p ci.PD, _ ci.PDType) ci.PD { return f(ciwrap.PD{PD: p}) }}
	}
	return []Mutant{
		m("nil.panics", "CI-Nil-01", "CreateQP uses an SRQ that is a nil pointer", ci.CapSRQ,
			pd(func(p ciwrap.PD) ci.PD { return trustingPD{p} })),
		m("nil.one-cq", "CI-Nil-01", "CreateQP without RecvCQ uses SendCQ", 0,
			pd(func(p ciwrap.PD) ci.PD { return onePD{p} })),
		m("nil.whole-batch", "CI-Nil-01", "UnmapFMRs skips nil FMRs", ci.CapFMR, pd(func(p ciwrap.PD) ci.PD {
			return pdUnmap{p, func(l []ci.FMR) error {
				var those []ci.FMR
				for _, f := range l {
					if !ci.IsNil(f) {
						those = append(those, f)
					}
				}
				return p.UnmapFMRs(those)
			}}
		})),
		m("nil.memory", "CI-Nil-02", "nil memory is taken as 4096 zero bytes", 0,
			ciwrap.Layer{MRCreate: func(c ci.MRCreate) ci.MRCreate {
				if c.Memory != nil && ci.IsNil(c.Memory) {
					c.Memory = ci.Bytes(make([]byte, 4096))
				}
				return c
			}}),
	}
}

type trustingPD struct{ ciwrap.PD }

func (t trustingPD) CreateQP(c ci.QPCreate) (ci.QP, error) {
	if c.SRQ != nil {
		if _, err := c.SRQ.Query(); err != nil {
			return nil, err
		}
	}
	return t.PD.CreateQP(c)
}

type onePD struct{ ciwrap.PD }

func (o onePD) CreateQP(c ci.QPCreate) (ci.QP, error) {
	if ci.IsNil(c.RecvCQ) {
		c.RecvCQ = c.SendCQ
	}
	return o.PD.CreateQP(c)
}
