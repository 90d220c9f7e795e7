package usermutants_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/validate"
	"ciddk/validate/mutant"
	"ciddk/validate/req"
	"ciddk/validate/suite/usersuite"
	"ciddk/validate/suite/usersuite/usermutants"
)

// TestAll checks that the mutants fit the suite, and that one breaks each requirement of user mode.
func TestAll(t *testing.T) {
	c, err := validate.NewCatalog(usersuite.Suite())
	require.NoError(t, err)
	_, err = mutant.NewSet(c, usermutants.All())
	require.NoError(t, err)
	broken := map[string]bool{}
	for _, m := range usermutants.All() {
		broken[m.Breaks] = true
	}
	for _, r := range req.SAS() {
		if r.Scope == req.UserMode {
			assert.True(t, broken[r.ID], "no mutant breaks %s", r.ID)
		}
	}
}
