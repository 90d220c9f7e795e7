package rdmacm_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/rdmacm"
	"ciddk/ci"
)

// TestOpenTwice tests that an access layer has one Manager: Open of a second one fails, names the owner of the first,
// and succeeds after its Close.
func TestOpenTwice(t *testing.T) {
	h := newLAN().Host(t, "10.0.0.1")
	live := h.HCAs["10.0.0.1"].Live()
	_, err := rdmacm.Open(nil, rdmacm.OpenConfig{})
	require.ErrorIs(t, err, ci.InvalidParameter)
	_, err = rdmacm.Open(h.AL, rdmacm.OpenConfig{})
	require.ErrorIs(t, err, ci.ResourceBusy)
	require.ErrorContains(t, err, `in use by client "rdmacm.Open"`)
	require.Equal(t, live, h.HCAs["10.0.0.1"].Live(), "the failed Open has left nothing")
	require.NoError(t, h.M.Close())
	m, err := rdmacm.Open(h.AL, rdmacm.OpenConfig{})
	require.NoError(t, err)
	ln, err := m.Listen(ap("10.0.0.1:7174"), rdmacm.ListenConfig{})
	require.NoError(t, err)
	require.NoError(t, ln.Close())
	require.NoError(t, m.Close())
}
