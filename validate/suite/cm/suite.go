// Package cmsuite holds the cases that judge management datagrams and connection management over the driver under test: MAD services on its
// special QPs, and the connection manager of the access layer, against another manager and against a peer that the certifier plays message by
// message. A driver fails here if its QP1 does not carry datagrams as IBTA says, if its QPs do not go where a connection takes them, or if
// it says too little for a manager to know. How cases are written: package validate, "For authors of cases".
package cmsuite

import (
	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/req"
)

// Suite is all areas.
func Suite() validate.Suite {
	s := validate.Merge("cm", madArea(), connectArea(), requestArea(), answerArea(), endArea(), lookupArea())
	for i := range s.Cases {
		c := &s.Cases[i]
		c.Feature = validate.FeatureCM
		c.Needs.HCAs = 2
		c.Needs.Caps |= ci.CapSpecialQP | ci.CapAV
	}
	return s
}

func must(id, section, source, text string) req.Requirement {
	return req.Requirement{ID: id, Text: text, Level: req.Must, Section: section, Source: source, Scope: req.AccessLayer}
}

func kase(id, title string, run func(*validate.T), rules ...string) validate.Case {
	return validate.Case{ID: id, Title: title, Requirements: rules, Run: run}
}

// infiniBand adds the need of such a link.
func infiniBand(c validate.Case) validate.Case {
	c.Needs.Links = []ci.Link{ci.LinkInfiniBand}
	return c
}

// claiming adds the need of a capability.
func claiming(caps ci.Caps, c validate.Case) validate.Case {
	c.Needs.Caps |= caps
	return c
}
