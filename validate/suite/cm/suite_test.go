package cmsuite

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/validate"
)

// TestSuite: ids are unique, every case judges a requirement that is declared, and every requirement is the first of a case, so that a
// failure is charged to it.
func TestSuite(t *testing.T) {
	s := Suite()
	c, err := validate.NewCatalog(s)
	require.NoError(t, err)
	require.NotEmpty(t, c.Cases())
	judged := map[string]bool{}
	for _, k := range s.Cases {
		require.Equal(t, validate.FeatureCM, k.Feature, k.ID)
		require.Equal(t, 2, k.Needs.HCAs, k.ID)
		judged[k.Requirements[0]] = true
	}
	for _, r := range s.Requirements {
		require.True(t, judged[r.ID], "%s is judged by no case of its own", r.ID)
	}
}
