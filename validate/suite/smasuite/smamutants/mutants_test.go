package smamutants_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/validate"
	"ciddk/validate/mutant"
	"ciddk/validate/suite/smasuite"
	"ciddk/validate/suite/smasuite/smamutants"
)

// TestAll checks that the mutants fit the suite.
func TestAll(t *testing.T) {
	c, err := validate.NewCatalog(smasuite.Suite())
	require.NoError(t, err)
	_, err = mutant.NewSet(c, smamutants.All())
	require.NoError(t, err)
}
