// Package cisuite holds the cases that judge a driver through package ci and nothing else. One file per area; each area is a function that
// gives its cases and the requirements they bring along, and is named in areas below. How cases are written: package validate, "For
// authors of cases".
package cisuite

import "ciddk/validate"

// Suite is all areas.
func Suite() validate.Suite {
	areas := make([]validate.Suite, 0, len(areaFuncs))
	for _, f := range areaFuncs {
		areas = append(areas, f())
	}
	return validate.Merge("ci", areas...)
}

// Catalog is the suite alone, as a vendor's test wants it.
func Catalog() *validate.Catalog { return validate.MustCatalog(Suite()) }
