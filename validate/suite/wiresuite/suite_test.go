package wiresuite

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/validate"
	"ciddk/validate/mutant"
)

// TestSuite checks that the suite is complete by itself, and that each of its requirements has a case that proves it
// and a mutant that breaks it.
func TestSuite(t *testing.T) {
	s := Suite()
	c, err := validate.NewCatalog(s)
	require.NoError(t, err)
	_, err = mutant.NewSet(c, Mutants())
	require.NoError(t, err)
	for _, r := range s.Requirements {
		broken := slices.ContainsFunc(Mutants(), func(m mutant.Mutant) bool { return m.Breaks == r.ID })
		assert.True(t, broken, "requirement %s has no mutant that breaks it", r.ID)
	}
	for _, k := range s.Cases {
		assert.True(t, strings.HasPrefix(k.ID, "wire."), k.ID)
		assert.True(t, k.Needs.Wire, k.ID)
		assert.Equal(t, validate.FeatureWire, k.Feature, k.ID)
	}
	for _, v := range c.Coverage() {
		if strings.HasPrefix(v.ID, "WIRE-") {
			assert.NotEmpty(t, v.Proven, "requirement %s has no case that checks it", v.ID)
		}
	}
}
