package usermutants

import (
	"slices"

	"ciddk/ci"
	"ciddk/validate/mutant"
	"ciddk/validate/suite/usersuite"
)

// All returns the mutants of all parts.
func All() []mutant.Mutant {
	return slices.Concat(application(), library(), proxy(), connection(), driver())
}

// fault returns a mutant that breaks r. make returns the fault of one adapter.
func fault(name, breaks, does string, make func() *usersuite.Fault) mutant.Mutant {
	return mutant.Of(name, breaks, does, func(h ci.HCA) ci.HCA { return usersuite.With(h, make()) })
}
