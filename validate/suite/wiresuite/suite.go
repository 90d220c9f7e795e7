package wiresuite

import (
	"ciddk/ci"
	"ciddk/validate"
)

// Suite returns all areas.
func Suite() validate.Suite {
	played := validate.Merge("", respondArea(), nakArea(), dupArea(), dropArea(), datagramArea(), requestArea(),
		reactArea(), answers.Suite(), linkArea(), strangers.Suite())
	for i := range played.Cases {
		c := &played.Cases[i]
		c.Requirements = append(c.Requirements, ruleAnyForm)
		c.Checks = append(c.Checks, ruleAnyForm)
	}
	s := validate.Merge("wire", trafficArea(), played)
	for i := range s.Cases {
		c := &s.Cases[i]
		c.Feature = validate.FeatureWire
		c.Needs.Wire = true
		if c.Timeout == 0 {
			c.Timeout = caseTime
		}
	}
	return s
}

// atomics marks a case as one that needs atomic operations.
func atomics(c validate.Case) validate.Case {
	c.Needs.Atomics = ci.AtomicLocal
	return c
}
