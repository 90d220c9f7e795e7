package alsuite_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/validate"
	"ciddk/validate/req"
	"ciddk/validate/suite/alsuite"
	"ciddk/validate/suite/cisuite"
)

// TestCatalog checks that the suite fits together with package cisuite, and that both have cases for every statement of
// the specification about the access layer. Package suitemutants checks that the other requirements have a case or a
// reason.
func TestCatalog(t *testing.T) {
	c, err := validate.NewCatalog(cisuite.Suite(), alsuite.Suite())
	require.NoError(t, err)
	for _, v := range c.Coverage() {
		if strings.HasPrefix(v.ID, "SAS-") && (v.Scope == req.AccessLayer || v.Scope == req.Driver) {
			assert.True(t, v.Covered() || v.Uncovered != "", "requirement %s has neither a case nor a reason", v.ID)
		}
	}
	for _, k := range alsuite.Suite().Cases {
		assert.Equal(t, validate.FeatureAL, k.Feature, k.ID)
	}
}
