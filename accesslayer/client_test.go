package accesslayer_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/ci"
)

// Only one client at a time has a role.
func TestSoleClient(t *testing.T) {
	t.Parallel()
	al := newAL(t)
	a := must(al.Open(accesslayer.ClientConfig{Name: "a", Sole: "QP1 owner"}))
	_, err := al.Open(accesslayer.ClientConfig{Name: "b", Sole: "QP1 owner"})
	require.ErrorIs(t, err, ci.ResourceBusy)
	require.ErrorContains(t, err, `QP1 owner: in use by client "a" (share it, or close that client first)`)
	must(al.Open(accesslayer.ClientConfig{Name: "c", Sole: "SA owner"}))
	must(al.Open(accesslayer.ClientConfig{Name: "a"}))

	// A client that is being closed has the role until its objects are destroyed.
	h := newFake(1)
	require.NoError(t, al.Register(h))
	ca := must(a.OpenCA(h.info.GUID, nil))
	enter, leave := make(chan struct{}), make(chan struct{})
	require.NoError(t, must(ca.NewPD(ci.PDNormal)).DestroyAsync(func(error) { close(enter); <-leave }))
	wait(t, enter, "the destroy")
	done := make(chan struct{})
	require.NoError(t, a.CloseAsync(func(error) { close(done) }))
	_, err = al.Open(accesslayer.ClientConfig{Name: "b", Sole: "QP1 owner"})
	require.ErrorIs(t, err, ci.ResourceBusy)
	require.ErrorContains(t, err, `"a" (it is being closed`)
	close(leave)
	wait(t, done, "the end of the client")
	require.NoError(t, a.Close())
	must(al.Open(accesslayer.ClientConfig{Name: "b", Sole: "QP1 owner"}))

	require.NoError(t, al.Close())
	for range 2 {
		_, err = al.Open(accesslayer.ClientConfig{Sole: "QP1 owner"})
		require.ErrorIs(t, err, accesslayer.ErrClosed, "a client that failed to open has no role")
	}
}
