package cisuite

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"ciddk/ci"
	"ciddk/validate"
)

// Every capability bit has a case that tests a claim of it, or a mark that none does. One without either fails here.
func TestEveryCapabilityIsTestedOrMarked(t *testing.T) {
	c := Catalog()
	proved := c.Proves()
	for bit := ci.Caps(1); bit <= validate.AllCaps; bit <<= 1 {
		why := c.NotTested(bit)
		if proved.Has(bit) {
			assert.Empty(t, why, "%s has a case, and is marked NotTested", validate.CapNames(bit))
		} else {
			assert.NotEmpty(t, why, "%s has neither a case with Proves nor a mark NotTested", validate.CapNames(bit))
		}
	}
	assert.Zero(t, proved&^validate.AllCaps)
}

// A case that proves a capability runs where the capability is claimed, judges the rule of claims, and stands in a feature of every
// profile that judges drivers.
func TestProofs(t *testing.T) {
	for _, c := range Catalog().Cases() {
		if c.Proves == 0 {
			continue
		}
		assert.True(t, c.Needs.Caps.Has(c.Proves), c.ID)
		assert.Equal(t, worksRule, c.Proven(), c.ID)
		assert.True(t, c.TestsSetup, "%s: a claim with nothing behind it fails in the set-up", c.ID)
		for _, p := range validate.Profiles() {
			assert.Equal(t, p.Name != "wire", p.Has(c.Feature), "%s in profile %s", c.ID, p.Name)
		}
	}
}
