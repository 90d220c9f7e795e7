package model_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/hca/mlx4/model"
	"ciddk/internal/mlx4/prm"
	"ciddk/link/direct"
)

// TestBadInitHCA initializes the adapter with sizes that it has not announced, one by one.
func TestBadInitHCA(t *testing.T) {
	d := newDriver(t, newModel(t, direct.NewLink(), model.Config{}))
	d.start()
	mailbox := append([]byte(nil), d.query(prm.CmdQueryHCA, 0, 0)[:prm.HCAVersion.Layout.Size]...)
	d.closeHCA()
	try := func(f *prm.Field, v uint64) prm.Status {
		d.fill(func(b []byte) {
			copy(b, mailbox)
			if f != nil {
				f.Put(b, v)
			}
		})
		s, _ := d.exec(prm.CmdInitHCA, d.in.IOVA, 0, 0, 0)
		return s
	}
	for _, tt := range []struct {
		f    *prm.Field
		v    uint64
		want prm.Status
	}{
		{&prm.HCAVersion, 1, prm.BadParam},
		{&prm.HCALogQPs, 25, prm.ExceedLim},
		{&prm.HCALogSRQs, 25, prm.ExceedLim},
		{&prm.HCALogCQs, 25, prm.ExceedLim},
		{&prm.HCALogEQs, 10, prm.ExceedLim},
		{&prm.HCALogMPTs, 25, prm.ExceedLim},
		{&prm.HCALogMCEntry, 5, prm.BadParam},
		{&prm.HCALogMCEntry, 12, prm.BadParam},
		{&prm.HCALogMCTable, 15, prm.BadParam},
		{&prm.HCALogMCHash, 10, prm.BadParam}, // the table has 2^9 entries
		{&prm.HCALogUARs, 11, prm.BadParam},
		{&prm.HCAUARPageSize, 1, prm.BadParam},
	} {
		assert.Equal(t, tt.want, try(tt.f, tt.v), "%s = %d", tt.f.Name, tt.v)
	}
	require.Equal(t, prm.OK, try(nil, 0))
	require.Equal(t, prm.BadSysState, try(nil, 0), "a second one")
}
