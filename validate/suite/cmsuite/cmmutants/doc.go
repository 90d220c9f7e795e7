// Package cmmutants holds the drivers that are wrong on purpose for package cmsuite: at least one for each requirement.
// Its files have the names of the suite's areas. Only programs with a self test import it; production code imports the
// suite alone.
package cmmutants
