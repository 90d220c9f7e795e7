package smasuite

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/validate"
)

// TestSuite checks that ids are unique, that every case proves a declared requirement, and that every requirement is
// the first one of a case, so that a failure is charged to it.
func TestSuite(t *testing.T) {
	s := Suite()
	c, err := validate.NewCatalog(s)
	require.NoError(t, err)
	require.NotEmpty(t, c.Cases())
	proven := map[string]bool{}
	for _, k := range s.Cases {
		require.Equal(t, validate.FeatureSMA, k.Feature, k.ID)
		proven[k.Requirements[0]] = true
		for _, id := range k.Checks {
			proven[id] = true
		}
	}
	for _, r := range s.Requirements {
		require.NotEqual(t, proven[r.ID], (r.Uncovered != ""), "%s: want a case that checks it, or a reason", r.ID)
	}
}
