package almutants_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/validate"
	"ciddk/validate/mutant"
	"ciddk/validate/suite/alsuite"
	"ciddk/validate/suite/alsuite/almutants"
)

// TestAll checks that the mutants fit the suite.
func TestAll(t *testing.T) {
	c, err := validate.NewCatalog(alsuite.Suite())
	require.NoError(t, err)
	_, err = mutant.NewSet(c, almutants.All())
	require.NoError(t, err)
}
