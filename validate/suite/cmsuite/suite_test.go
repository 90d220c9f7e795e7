package cmsuite

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/validate"
)

// TestSuite checks that ids are unique, that every case proves a declared requirement, and that every requirement is
// the first one of a case, so that a failure is charged to it, or is a rule of the kit's own code.
func TestSuite(t *testing.T) {
	s := Suite()
	c, err := validate.NewCatalog(s)
	require.NoError(t, err)
	require.NotEmpty(t, c.Cases())
	proven := map[string]bool{}
	for _, r := range kitRules.Suite().Requirements {
		proven[r.ID] = true
	}
	for _, k := range s.Cases {
		require.Equal(t, validate.FeatureCM, k.Feature, k.ID)
		require.Equal(t, 2, k.Needs.HCAs, k.ID)
		proven[k.Requirements[0]] = true
	}
	for _, r := range s.Requirements {
		require.True(t, proven[r.ID], "%s is not the first requirement of any case", r.ID)
	}
}
