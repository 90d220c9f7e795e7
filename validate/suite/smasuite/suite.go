package smasuite

import (
	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/req"
)

// Suite returns all areas.
func Suite() validate.Suite {
	return validate.NewSuite("sma", answers, keys, sets, components, tables, routes, traps,
		consumers, perf, inactives, kits, managers, ethernets, drivers)
}

// area returns an empty area of the suite.
func area() *validate.Area { return &validate.Area{Scope: req.Driver, Complete: complete} }

// complete sets what all cases of the suite have in common. Their driver is not used again, since they change the port.
func complete(c *validate.Case) {
	c.Feature = validate.FeatureSMA
	c.Needs.Attr = noAgent
	c.Needs.Links = []ci.Link{ci.LinkInfiniBand}
	c.Spoils = true
}

// noAgent returns the reason for skipping a case if nothing answers subnet management of the first port, or if no
// request can reach what does: agents below the driver's interface are asked from QP0 of another port, which a process
// does not have. The case mad.agent reports a driver without an agent.
func noAgent(a *ci.CAAttr) string {
	switch {
	case a.HasHardwareAgents(1) && !a.Caps.Has(ci.CapSpecialQP):
		return "not claimed: SpecialQP, to reach the port's agents"
	case a.Caps.Has(ci.CapLocalMAD) || a.HasHardwareAgents(1):
		return ""
	}
	return "not claimed: LocalMAD, HardwareSMA"
}
