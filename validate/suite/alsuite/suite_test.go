package alsuite_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/validate"
	"ciddk/validate/req"
	"ciddk/validate/suite/alsuite"
	"ciddk/validate/suite/cisuite"
)

// TestCatalog checks that the suite fits together with package cisuite, and that both have cases for every requirement
// of the access layer.
func TestCatalog(t *testing.T) {
	c, err := validate.NewCatalog(cisuite.Suite(), alsuite.Suite())
	require.NoError(t, err)
	for _, v := range c.Coverage() {
		if v.Scope == req.AccessLayer || v.Scope == req.Driver {
			assert.True(t, v.Covered() || v.Uncovered != "", "requirement %s has neither a case nor a reason", v.ID)
		}
	}
	for _, k := range alsuite.Suite().Cases {
		assert.Equal(t, validate.FeatureAL, k.Feature, k.ID)
	}
}
