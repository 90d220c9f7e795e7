package cmsuite

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/validate"
)

// TestSuite checks that ids are unique, that every case proves a declared requirement, and that every requirement is
// the first one of a case, or one that it checks, so that a failure is charged to it.
func TestSuite(t *testing.T) {
	s := Suite()
	c, err := validate.NewCatalog(s)
	require.NoError(t, err)
	require.NotEmpty(t, c.Cases())
	proven := map[string]bool{}
	for _, k := range s.Cases {
		require.Equal(t, validate.FeatureCM, k.Feature, k.ID)
		require.Equal(t, 2, k.Needs.HCAs, k.ID)
		for _, id := range append(k.Checks, k.Requirements[0]) {
			proven[id] = true
		}
	}
	for _, r := range s.Requirements {
		require.True(t, proven[r.ID], "no failure of a case is charged to %s", r.ID)
	}
}
