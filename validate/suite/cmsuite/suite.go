package cmsuite

import (
	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/req"
)

// Suite returns all areas.
func Suite() validate.Suite {
	return validate.NewSuite("cm", datagrams, connects, requests, answers, ends, lookups)
}

// area returns an empty area of the suite.
func area() *validate.Area { return &validate.Area{Scope: req.AccessLayer, Complete: complete} }

// complete sets what all cases of the suite have in common.
func complete(c *validate.Case) {
	c.Feature = validate.FeatureCM
	c.Needs.HCAs = 2
	c.Needs.Services = true
	c.Needs.Caps |= ci.CapAV
}
