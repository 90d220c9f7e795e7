package smasuite

import (
	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/req"
)

// Suite returns all areas.
func Suite() validate.Suite { return validate.NewSuite("sma", answers, keys, sets) }

// area returns an empty area of the suite.
func area() *validate.Area { return &validate.Area{Scope: req.Driver, Complete: complete} }

// complete sets what all cases of the suite have in common. Their driver is not used again, since they change the port.
func complete(c *validate.Case) {
	c.Feature = validate.FeatureSMA
	c.Needs.Caps |= ci.CapLocalMAD
	c.Needs.Links = []ci.Link{ci.LinkInfiniBand}
	c.Spoils = true
}
