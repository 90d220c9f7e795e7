package usersuite_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/validate"
	"ciddk/validate/req"
	"ciddk/validate/suite/usersuite"
)

// TestCatalog checks that each requirement of user mode is the one that a case proves.
func TestCatalog(t *testing.T) {
	c, err := validate.NewCatalog(usersuite.Suite())
	require.NoError(t, err)
	proven := map[string]bool{}
	for _, k := range c.Cases() {
		assert.Equal(t, validate.FeatureUser, k.Feature, k.ID)
		proven[k.Proven()] = true
	}
	for _, r := range req.SAS() {
		if r.Scope == req.UserMode {
			assert.True(t, proven[r.ID], "no case proves %s", r.ID)
			assert.Empty(t, r.Uncovered, r.ID)
		}
	}
}
