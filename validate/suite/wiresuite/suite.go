package wiresuite

import (
	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/req"
)

// Suite returns all areas.
func Suite() validate.Suite {
	played := validate.NewSuite("", respondCases, nakCases, dupCases, dropCases, datagramCases, requestCases,
		reactCases, answers, linkCases, strangers, headers, unanswered, unfit, changes, migrateCases, counts, lanes,
		placeCases, depths)
	for i := range played.Cases {
		c := &played.Cases[i]
		c.Requirements = append(c.Requirements, ruleAnyForm)
		c.Checks = append(c.Checks, ruleAnyForm)
	}
	s := validate.Merge("wire", trafficCases.Suite(), played)
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

// area returns an empty area of the suite.
func area() *validate.Area { return &validate.Area{Scope: req.Driver} }

// atomics marks a case as one that needs atomic operations.
func atomics(c validate.Case) validate.Case {
	c.Needs.Atomics = ci.AtomicLocal
	return c
}
