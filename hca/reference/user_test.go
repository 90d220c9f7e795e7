package reference

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/hca/reference/arena"
	"ciddk/internal/rings"
	"ciddk/rvt"
)

// TestUserAVs creates as many address vectors for a user library as an adapter has by default. Their numbers differ,
// and one that is free is used again.
func TestUserAVs(t *testing.T) {
	const most = 1 << 16 // rvt's default of CAAttr.MaxAVs
	u := &userContext{mem: new(arena.Memory), abi: rings.UserCommand, numbers: map[*rvt.AV]uint32{}}
	ub := &ci.UserBuffer{Command: rings.UserCommand, Out: make([]byte, 0, 64)}
	avs := make([]rvt.AV, most+1)
	for i := range most {
		require.NoError(t, u.AddAV(&avs[i], ub))
	}
	for i := range most {
		require.Same(t, &avs[i], u.avs.get(u.numbers[&avs[i]]))
	}
	require.ErrorIs(t, u.AddAV(&avs[most], ub), ci.InsufficientResources)
	u.RemoveAV(&avs[77])
	require.NoError(t, u.AddAV(&avs[most], ub))
}
