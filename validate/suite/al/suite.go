// Package alsuite holds the cases that judge the access layer over the driver under test: registration and removal, shared opens, the tree of
// objects and its destruction, PnP, and the consumption of completions. The driver is seen through a recorder (package ci/ciwrap), so
// that a case knows which verbs reached it, in which order and on whose stack. How cases are written: package validate, "For authors of cases".
package alsuite

import (
	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/req"
)

// Suite is all areas.
func Suite() validate.Suite {
	s := validate.Merge("al", registerArea(), removeArea(), destroyArea(), pumpArea())
	for i := range s.Cases {
		s.Cases[i].Feature = validate.FeatureAL
	}
	return s
}

func must(id, section, source, text string) req.Requirement {
	return req.Requirement{ID: id, Text: text, Level: req.Must, Section: section, Source: source, Scope: req.AccessLayer}
}

func kase(id, title string, run func(*validate.T), rules ...string) validate.Case {
	return validate.Case{ID: id, Title: title, Requirements: rules, Run: run}
}

// two adds the need of two adapters that reach each other.
func two(c validate.Case) validate.Case {
	c.Needs.HCAs = 2
	return c
}

// agent adds the need of a driver that executes local MADs on an InfiniBand link.
func agent(c validate.Case) validate.Case {
	c.Needs = validate.Needs{Caps: ci.CapLocalMAD, Links: []ci.Link{ci.LinkInfiniBand}}
	return c
}
