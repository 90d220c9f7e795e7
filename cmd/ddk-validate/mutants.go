package main

import (
	"ciddk/validate/mutant"
	"ciddk/validate/suite/alsuite/almutants"
	"ciddk/validate/suite/cisuite/cimutants"
	"ciddk/validate/suite/cmsuite/cmmutants"
	"ciddk/validate/suite/smasuite/smamutants"
	"ciddk/validate/suite/usersuite/usermutants"
	"ciddk/validate/suite/wiresuite"
)

// mutants returns the mutants for the self test.
func mutants() [][]mutant.Mutant {
	return append(mutant.All(), cimutants.All(), almutants.All(), cmmutants.All(), smamutants.All(),
		usermutants.All(),
		wiresuite.Mutants())
}
