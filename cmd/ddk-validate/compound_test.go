package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/testenv"
	"ciddk/validate"
	"ciddk/validate/mutant"
	"ciddk/validate/suite/cisuite"
)

// TestCompounds checks that mistakes which show only when two features of a request come together are found: a sample
// of those that "ddk-validate self --compound 40" draws.
func TestCompounds(t *testing.T) {
	testenv.Long(t)
	r, err := mutant.Self(t.Context(), mutant.Plan{
		Catalog: cisuite.Catalog(), Driver: drivers()[0], Set: mutant.Compounds(1, 40),
		Names: []string{"compound.1-2", "compound.1-9", "compound.1-18", "compound.1-19", "compound.1-22"},
		Cases: []string{"post.inline.*", "rc.send.sizes", "rdma.*.sizes", "uc.*.sizes", "uc.inline", "ud.sizes"},
		Setting: validate.Setting{Profile: "full",
			Options: validate.Options{Seed: 1, Run: os.Getpid(), Link: "direct"}},
	})
	require.NoError(t, err)
	require.Len(t, r.Outcomes, 5)
	for _, o := range r.Outcomes {
		assert.True(t, o.Caught, "%s: %s: %s", o.Mutant.Name, o.Mutant.Does, o.Why)
	}
}
