// Package cmmutants holds drivers with one deliberate fault each for the self test of package cmsuite, at least one for
// each requirement. Its files have the names of the suite's areas. Only programs with a self test import it. Production
// code imports only the suite.
package cmmutants
