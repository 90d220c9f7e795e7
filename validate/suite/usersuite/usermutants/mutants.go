package usermutants

import (
	"slices"

	"ciddk/ci"
	"ciddk/validate/mutant"
	"ciddk/validate/req"
	"ciddk/validate/suite/usersuite"
)

// All returns the mutants of all parts.
func All() []mutant.Mutant {
	return slices.Concat(application(), library(), proxy(), connection(), driver())
}

// fault returns a mutant that breaks r. make returns the fault of one adapter.
func fault(name string, r *req.Requirement, does string, make func() *usersuite.Fault) mutant.Mutant {
	return mutant.Mutant{Name: name, Area: "user", Breaks: r.ID, Does: does,
		Wrap: func(h ci.HCA) ci.HCA { return usersuite.With(h, make()) }}
}
