package cmmutants_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/validate"
	"ciddk/validate/mutant"
	"ciddk/validate/suite/cmsuite"
	"ciddk/validate/suite/cmsuite/cmmutants"
)

// TestAll checks that the mutants fit the suite and that each requirement that a case proves is broken by one.
func TestAll(t *testing.T) {
	s := cmsuite.Suite()
	c, err := validate.NewCatalog(s)
	require.NoError(t, err)
	_, err = mutant.NewSet(c, cmmutants.All())
	require.NoError(t, err)
	broken := map[string]bool{}
	for _, m := range cmmutants.All() {
		broken[m.Breaks] = true
	}
	for _, k := range s.Cases {
		assert.True(t, broken[k.Requirements[0]], "requirement %s has no mutant that breaks it", k.Requirements[0])
	}
}
