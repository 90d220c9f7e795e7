package mlx4_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
)

func TestModify(t *testing.T) {
	o := newSingle(t, true)
	for _, tt := range []struct {
		m, want ci.Moderation
		status  ci.Status
	}{
		{ci.Moderation{Count: 65535, Period: 65535 * time.Microsecond},
			ci.Moderation{Count: 65535, Period: 65535 * time.Microsecond}, ci.Success},
		{ci.Moderation{Count: 1, Period: 1}, ci.Moderation{Count: 1, Period: time.Microsecond}, ci.Success},
		{ci.Moderation{}, ci.Moderation{}, ci.Success},
		{ci.Moderation{Count: -1}, ci.Moderation{}, ci.InvalidParameter},
		{ci.Moderation{Count: 65536}, ci.Moderation{}, ci.InvalidParameter},
		{ci.Moderation{Period: -1}, ci.Moderation{}, ci.InvalidParameter},
		{ci.Moderation{Period: 65535*time.Microsecond + 1}, ci.Moderation{}, ci.InvalidParameter},
	} {
		assert.Equal(t, tt.status, ci.StatusOf(o.send.Modify(tt.m)), "%+v", tt.m)
		a, err := o.send.Query()
		require.NoError(t, err)
		assert.Equal(t, tt.want, a.Moderation, "%+v", tt.m)
	}

	// The moderation remains when the CQ is resized.
	m := ci.Moderation{Count: 7, Period: time.Millisecond}
	require.NoError(t, o.send.Modify(m))
	_, err := o.send.Resize(ci.CQResize{Size: 100})
	require.NoError(t, err)
	a, err := o.send.Query()
	require.NoError(t, err)
	assert.Equal(t, m, a.Moderation)

	q, err := o.pd.CreateCQ(ci.CQCreate{Size: 1})
	require.NoError(t, err)
	require.NoError(t, q.Destroy())
	assert.Equal(t, ci.InvalidCQHandle, ci.StatusOf(q.Modify(ci.Moderation{})))
	o.close(t)
}
