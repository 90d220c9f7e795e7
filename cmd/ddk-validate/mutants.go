package main

import (
	"ciddk/validate/mutant"
	"ciddk/validate/suite/al/almutants"
	"ciddk/validate/suite/ci/cimutants"
	"ciddk/validate/suite/cm/cmmutants"
	wiresuite "ciddk/validate/suite/wire"
)

// mutants returns the lists of wrong drivers for the self test.
func mutants() [][]mutant.Mutant {
	return append(mutant.All(), cimutants.All(), almutants.All(), cmmutants.All(), wiresuite.Mutants())
}
