// Package wiresuite holds the cases that judge a driver at its wire: packets as they leave, and what those that come in do. The certifier
// sits at an end of the link (validate.Wire) and plays the other side there, packet by packet, as a script has it; or it stands between two
// adapters and passes on what they say. Each area is a function in a file of its own. How cases are written: package validate, "For authors of
// cases".
//
// What a case has in hand is a peer (dial): a QP of the adapter under test in RTS, connected to the certifier, which sends with request,
// message and answer and looks at what comes with expect. That nothing comes is found out without waiting, by something sent behind, whose
// answer must be the next packet (barrier).
//
// The ICRC of everything that is sent or judged is computed here, from the specification, and not by package wire, which the software
// adapter of this kit uses.
package wiresuite

import (
	"ciddk/ci"
	"ciddk/validate"
)

// Suite is all areas.
func Suite() validate.Suite {
	played := validate.Merge("", respondArea(), nakArea(), dupArea(), dropArea(), datagramArea(), requestArea(), reactArea(), linkArea())
	for i := range played.Cases {
		c := &played.Cases[i]
		c.Requirements = append(c.Requirements, ruleAnyForm)
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

// atomics adds the need of atomic operations.
func atomics(c validate.Case) validate.Case {
	c.Needs.Atomics = ci.AtomicLocal
	return c
}
