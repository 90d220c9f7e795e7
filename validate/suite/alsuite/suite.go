package alsuite

import (
	"ciddk/validate"
	"ciddk/validate/req"
)

// Suite returns all areas.
func Suite() validate.Suite {
	return validate.NewSuite("al", registrations, removals, destroys, clients, ports, loads)
}

// area returns an empty area of the suite.
func area() *validate.Area { return &validate.Area{Scope: req.AccessLayer, Complete: complete} }

// complete sets what all cases of the suite have in common.
func complete(c *validate.Case) { c.Feature = validate.FeatureAL }
