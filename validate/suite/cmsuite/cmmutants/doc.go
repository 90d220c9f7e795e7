// Package cmmutants holds drivers with one deliberate fault each for the self test of package cmsuite, at least one for
// each requirement. Only programs with a self test import it. Production code imports only the suite.
package cmmutants
