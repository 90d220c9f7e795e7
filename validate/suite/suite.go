// Package suite lists the certifier's suites. Each suite is a package below this one. Programs that run all of them
// import this package. Programs for one driver may import a single suite, such as validate/suite/cisuite.
package suite

import (
	"ciddk/validate"
	"ciddk/validate/suite/alsuite"
	"ciddk/validate/suite/cisuite"
	"ciddk/validate/suite/cmsuite"
	"ciddk/validate/suite/modelsuite"
	"ciddk/validate/suite/smasuite"
	"ciddk/validate/suite/usersuite"
	"ciddk/validate/suite/wiresuite"
)

// All returns every suite, in the order of reports.
func All() []validate.Suite {
	return []validate.Suite{cisuite.Suite(), alsuite.Suite(), cmsuite.Suite(), smasuite.Suite(), usersuite.Suite(),
		wiresuite.Suite(), modelsuite.Suite(), moved()}
}
