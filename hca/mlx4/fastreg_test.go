package mlx4_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
)

// TestFastRegBindWindow posts fast registrations with each right. BindWindow completes with an error, and no window of
// type 1 can be bound to a region without it.
func TestFastRegBindWindow(t *testing.T) {
	for name, tt := range map[string]struct {
		access ci.Access
		want   ci.WCStatus
	}{
		"remote write": {ci.LocalWrite | ci.RemoteWrite, ci.WCSuccess},
		"windows":      {ci.LocalWrite | ci.BindWindow, ci.WCLocalOpErr},
	} {
		o := newSingle(t, true)
		mr, err := o.pd.AllocFastRegMR(1)
		require.NoError(t, err)
		mw, err := o.pd.CreateMW(ci.MWCreate{Type: ci.MWType1})
		require.NoError(t, err)
		n, err := o.qp.PostSend([]ci.SendWR{{ID: 1, Op: ci.OpFastReg, Flags: ci.SendSignaled, Ext: &ci.SendExt{
			FastReg: ci.FastReg{MR: mr, Key: mr.Region().LKey, IOVA: 1 << 20, Length: 1 << 12, Pages: []uint64{1 << 12},
				PageShift: 12, Access: tt.access}}}})
		require.NoError(t, err)
		require.Equal(t, 1, n)
		wc := make([]ci.WC, 1)
		n = 0
		for end := time.Now().Add(time.Minute); n == 0 && time.Now().Before(end); {
			n, err = o.send.Poll(wc)
			require.NoError(t, err)
		}
		require.Equal(t, 1, n, name)
		require.Equal(t, tt.want, wc[0].Status, name)
		_, err = o.qp.BindMW(2, ci.SendSignaled, ci.MWBind{MW: mw, MR: mr, Key: mw.Key(), Addr: 1 << 20, Length: 64,
			Access: ci.RemoteWrite})
		require.Equal(t, ci.InvalidPermission, ci.StatusOf(err), name)
		o.close(t, mw, mr)
	}
}
