// Package suitemutants lists the mutants of all suites. Only programs with a self test, and the tool that writes
// docs/sas/coverage.md, import it.
package suitemutants

import (
	"ciddk/validate/mutant"
	"ciddk/validate/suite/alsuite/almutants"
	"ciddk/validate/suite/cisuite/cimutants"
	"ciddk/validate/suite/cmsuite/cmmutants"
	"ciddk/validate/suite/modelsuite/modelmutants"
	"ciddk/validate/suite/smasuite/smamutants"
	"ciddk/validate/suite/usersuite/usermutants"
	"ciddk/validate/suite/wiresuite"
)

// All returns the mutants of every suite.
func All() [][]mutant.Mutant {
	return append(mutant.All(), cimutants.All(), almutants.All(), cmmutants.All(), smamutants.All(),
		usermutants.All(), wiresuite.Mutants(), modelmutants.All())
}
