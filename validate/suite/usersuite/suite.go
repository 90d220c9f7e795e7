package usersuite

import (
	"ciddk/validate"
	"ciddk/validate/req"
)

// Suite returns all areas.
func Suite() validate.Suite {
	return validate.NewSuite("user", steps, buffers, memories, isolations, exits, batches, libraries, turnovers,
		scribbles, unusable, partials)
}

// area returns an empty area of the suite.
func area() *validate.Area { return &validate.Area{Scope: req.UserMode, Complete: complete} }

// complete sets what all cases of the suite have in common.
func complete(c *validate.Case) { c.Feature = validate.FeatureUser }
