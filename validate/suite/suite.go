// Package suite lists the certifier's suites. Each suite is a package below this one; programs that run all of them import this package,
// and programs for one driver may import a single suite, such as validate/suite/ci.
package suite

import (
	"ciddk/validate"
	alsuite "ciddk/validate/suite/al"
	cisuite "ciddk/validate/suite/ci"
	cmsuite "ciddk/validate/suite/cm"
	wiresuite "ciddk/validate/suite/wire"
)

// All returns every suite, in the order of reports.
func All() []validate.Suite {
	return []validate.Suite{cisuite.Suite(), alsuite.Suite(), cmsuite.Suite(), wiresuite.Suite()}
}
