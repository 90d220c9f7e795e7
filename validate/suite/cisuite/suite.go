package cisuite

import "ciddk/validate"

// Suite returns all areas.
func Suite() validate.Suite {
	areas := make([]validate.Suite, 0, len(areaFuncs))
	for _, f := range areaFuncs {
		areas = append(areas, f())
	}
	return validate.Merge("ci", areas...)
}

// Catalog returns a catalog of this suite alone, for the tests of vendors.
func Catalog() *validate.Catalog { return validate.MustCatalog(Suite()) }
