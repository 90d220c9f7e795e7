package usersuite_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/validate"
	"ciddk/validate/req"
	"ciddk/validate/suite/usersuite"
)

// TestCatalog checks that each requirement of user mode is one that a case proves or checks.
func TestCatalog(t *testing.T) {
	c, err := validate.NewCatalog(usersuite.Suite())
	require.NoError(t, err)
	proven := map[string]bool{}
	for _, k := range c.Cases() {
		assert.Equal(t, validate.FeatureUser, k.Feature, k.ID)
		for _, id := range append(k.Checks, k.Proven()) {
			proven[id] = true
		}
	}
	for _, r := range req.SAS() {
		if r.Scope == req.UserMode {
			assert.True(t, proven[r.ID], "no case proves or checks %s", r.ID)
			assert.Empty(t, r.Uncovered, r.ID)
		}
	}
}
