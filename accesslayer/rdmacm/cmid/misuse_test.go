package cmid_test

import (
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/ci"
	"ciddk/internal/cmrig"
)

// TestListenRefused tests that a listener that the connection manager rejects leaves the port as it was: others with
// ReuseAddr can have it.
func TestListenRefused(t *testing.T) {
	h := newLAN().Host(t, "10.66.0.1")
	var ids [2]*cmid.ID
	for k := range ids {
		id, err := h.M.NewID(cmid.IDConfig{ReuseAddr: true})
		require.NoError(t, err)
		ids[k] = id
	}
	require.NoError(t, ids[0].Bind(ap("10.66.0.1:701")))
	_, err := ids[0].Listen(-1)
	require.ErrorIs(t, err, ci.InvalidParameter)
	assert.NoError(t, ids[1].Bind(ap("10.66.0.1:701")))
}

// TestNoQP tests a nil QP, and a QP for an ID that is closed.
func TestNoQP(t *testing.T) {
	h := newLAN().Host(t, "10.66.0.1")
	id, err := h.M.NewID(cmid.IDConfig{})
	require.NoError(t, err)
	require.NoError(t, id.ResolveAddr(cmrig.Within(t), ap("10.66.0.1:7")))
	require.ErrorIs(t, id.UseQP(nil, 0), ci.InvalidParameter)
	require.ErrorIs(t, id.UseQP((*accesslayer.QP)(nil), 0), ci.InvalidParameter)
	require.NoError(t, id.CreateQP(cmid.QPConfig{}))
	require.NoError(t, id.Close())
	require.ErrorIs(t, id.CreateQP(cmid.QPConfig{}), net.ErrClosed)
}

// TestAnyAddress tests the text of the address of a listener on all addresses.
func TestAnyAddress(t *testing.T) {
	h := newLAN().Host(t, "10.66.0.1")
	ln, err := h.M.Listen(ap("[::]:702"), cmid.ListenConfig{})
	require.NoError(t, err)
	assert.Equal(t, ":702", ln.Addr().String())
}
