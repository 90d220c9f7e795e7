package mutant

import (
	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate/mutant/tap"
)

// Nothing are faults that arguments meet which are no object.
func Nothing() []Mutant {
	m := func(name, breaks, does string, needs ci.Caps, l ciwrap.Layer) Mutant {
		return Mutant{Name: name, Area: "nil", Breaks: breaks, Does: does, Needs: needs, Wrap: tap.Layer(l)}
	}
	pd := func(f func(p ciwrap.PD) ci.PD) ciwrap.Layer {
		return ciwrap.Layer{PD: func(p ci.PD, _ ci.PDType) ci.PD { return f(ciwrap.PD{PD: p}) }}
	}
	return []Mutant{
		m(
			"nil.panics", "CI-Nil-01", "CreateQP uses an SRQ that is a nil pointer", ci.CapSRQ,
			pd(func(p ciwrap.PD) ci.PD { return trustingPD{p} }),
		),
		m(
			"nil.one-cq", "CI-Nil-01", "CreateQP without RecvCQ takes the other", 0,
			pd(func(p ciwrap.PD) ci.PD { return onePD{p} }),
		),
		m("nil.whole-batch", "CI-Nil-01", "UnmapFMRs leaves out what is no FMR", ci.CapFMR, pd(func(p ciwrap.PD) ci.PD {
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
		m(
			"nil.memory",
			"CI-Nil-02",
			"memory that is none is 4096 bytes of zero",
			0,
			ciwrap.Layer{MRCreate: func(c ci.MRCreate) ci.MRCreate {
				if c.Memory != nil && ci.IsNil(c.Memory) {
					c.Memory = ci.Bytes(make([]byte, 4096))
				}
				return c
			}},
		),
	}
}

type trustingPD struct{ ciwrap.PD }

func (p trustingPD) CreateQP(c ci.QPCreate) (ci.QP, error) {
	if c.SRQ != nil {
		if _, err := c.SRQ.Query(); err != nil {
			return nil, err
		}
	}
	return p.PD.CreateQP(c)
}

type onePD struct{ ciwrap.PD }

func (p onePD) CreateQP(c ci.QPCreate) (ci.QP, error) {
	if ci.IsNil(c.RecvCQ) {
		c.RecvCQ = c.SendCQ
	}
	return p.PD.CreateQP(c)
}
