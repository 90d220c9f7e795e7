package rvt

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
)

// Keys of a type 1 window come from QP.BindMW: a work request that names such a window is rejected and changes nothing.
func TestTypeOneWindowNotByPost(t *testing.T) {
	a, _ := pair(t, &wireLink{}, ci.RC)
	w, err := a.pd.CreateMW(ci.MWCreate{Type: ci.MWType1})
	require.NoError(t, err)
	r, key := a.mr.Region(), w.Key()
	bind := ci.MWBind{MW: w, MR: a.mr, Key: key, Addr: r.Addr, Length: 64, Access: ci.RemoteRead}
	n, err := a.qp.PostSend([]ci.SendWR{{Op: ci.OpBindMW, Flags: ci.SendSignaled, Ext: &ci.SendExt{Bind: bind}}})
	require.Zero(t, n)
	requireStatus(t, ci.InvalidParameter, err)
	require.Equal(t, key, w.Key())
	require.Empty(t, a.poll())
	next, err := a.qp.BindMW(1, ci.SendSignaled, bind)
	require.NoError(t, err)
	require.NotEqual(t, key, next)
	require.Equal(t, []ci.WC{{ID: 1, QPN: a.qp.Num(), Op: ci.WCBindMW}}, a.poll())
	require.NoError(t, w.Destroy())
}
