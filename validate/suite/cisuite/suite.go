package cisuite

import "ciddk/validate"

// Suite returns all areas.
func Suite() validate.Suite {
	s := validate.NewSuite("ci", areas...)
	s.NotTested = notTested
	return s
}

// Catalog returns a catalog of this suite alone, for the tests of vendors.
func Catalog() *validate.Catalog { return validate.MustCatalog(Suite()) }
