package mlx4

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
)

// TestUse has Destroy wait for a verb, after which the object cannot be used.
func TestUse(t *testing.T) {
	var r refs
	require.True(t, r.use())
	ended := make(chan error, 1)
	go func() { ended <- r.beginDestroy("CQ.Destroy", ci.InvalidCQHandle) }()
	require.Eventually(t, func() bool { // Destroy waits when no other verb can begin
		if r.running.TryRLock() {
			r.running.RUnlock()
			return false
		}
		return true
	}, time.Minute, time.Millisecond)
	require.Empty(t, ended, "a verb is under way")
	require.False(t, r.get(), "nothing may depend on it from now on")
	r.done()
	require.NoError(t, <-ended)
	require.False(t, r.use())
	require.Equal(t, ci.InvalidCQHandle, ci.StatusOf(r.beginDestroy("CQ.Destroy", ci.InvalidCQHandle)))
	r.revive()
	require.True(t, r.use())
	require.True(t, r.get())
	require.Equal(t, ci.ResourceBusy, ci.StatusOf(r.beginDestroy("CQ.Destroy", ci.InvalidCQHandle)))
	r.done()
}
