package main

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/validate"
)

// TestLegalAdapters checks that adapters of a seed open, claim what was drawn and are the same in each run.
func TestLegalAdapters(t *testing.T) {
	t.Parallel()
	for seed := range 50 {
		for _, link := range []string{"direct", "network"} {
			o := validate.Options{Link: link, Values: map[string]string{"legal": strconv.Itoa(seed)}}
			require.NoError(t, checkValues(o))
			least := smallest()
			var mtus []ci.MTU
			for range 2 {
				target, err := openReference(t.Context(), o)
				require.NoError(t, err)
				want, err := legalAdapter(o)
				require.NoError(t, err)
				for _, h := range target.HCAs {
					ca, err := h.OpenCA(h.Info().GUID, func(ci.Event) {}, nil)
					require.NoError(t, err)
					a, err := ca.Query()
					require.NoError(t, err)
					assert.Empty(t, validate.Lacking(a, &least))
					assert.LessOrEqual(t, a.MaxReadSGEs, a.MaxSGEs)
					assert.LessOrEqual(t, a.MaxRespResPerQP, a.MaxRespRes)
					assert.Equal(t, want.attr.MaxSGEs, a.MaxSGEs)
					mtus = append(mtus, a.Ports[0].MTU)
					require.NoError(t, ca.Destroy())
				}
				require.NoError(t, target.Close(t.Context()))
			}
			assert.Equal(t, mtus[:2], mtus[2:])
		}
	}
	_, err := legalAdapter(validate.Options{Values: map[string]string{"legal": "x"}})
	assert.ErrorContains(t, err, "--set legal=x")
}
