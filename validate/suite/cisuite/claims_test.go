package cisuite

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"ciddk/ci"
	"ciddk/validate"
)

// TestEveryCapabilityIsTestedOrMarked checks that each capability bit has either a case that tests it or a NotTested
// mark.
func TestEveryCapabilityIsTestedOrMarked(t *testing.T) {
	c := Catalog()
	proved := c.Proves()
	for bit := ci.Caps(1); bit <= validate.AllCaps; bit <<= 1 {
		why := c.NotTested(bit)
		if proved.Has(bit) {
			assert.Empty(t, why, "%s has a case and is also marked NotTested", validate.CapNames(bit))
		} else {
			assert.NotEmpty(t, why, "%s has neither a case with Proves nor a NotTested mark", validate.CapNames(bit))
		}
	}
	assert.Zero(t, proved&^validate.AllCaps)
}

// TestProofs checks that a case that proves a capability needs it, proves the rule of claims, and belongs to a feature
// of every profile for drivers.
func TestProofs(t *testing.T) {
	for _, c := range Catalog().Cases() {
		if c.Proves == 0 {
			continue
		}
		assert.True(t, c.Needs.Caps.Has(c.Proves), c.ID)
		assert.Equal(t, "CI-Claims-04", c.Proven(), c.ID)
		assert.True(t, c.TestsSetup, "%s: TestsSetup must be set, since a hollow claim fails in the set-up", c.ID)
		for _, p := range validate.Profiles() {
			assert.Equal(t, p.Name != "wire" && p.Name != "user", p.Has(c.Feature), "%s in profile %s", c.ID, p.Name)
		}
	}
}
