package accesslayer_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/ci"
)

// What there is one of is one client's, until that is gone.
func TestSoleClient(t *testing.T) {
	t.Parallel()
	al := newAL(t)
	a := must(al.Open(accesslayer.ClientConfig{Name: "a", Sole: "the well"}))
	_, err := al.Open(accesslayer.ClientConfig{Name: "b", Sole: "the well"})
	require.ErrorIs(t, err, ci.ResourceBusy)
	require.ErrorContains(t, err, `the well of this access layer: held by the client "a", share that one, or close it first`)
	must(al.Open(accesslayer.ClientConfig{Name: "c", Sole: "the mill"}))
	must(al.Open(accesslayer.ClientConfig{Name: "a"}))

	// A client that is on its way out holds it until it is gone.
	h := newFake(1)
	require.NoError(t, al.Register(h))
	ca := must(a.OpenCA(h.info.GUID, nil))
	enter, leave := make(chan struct{}), make(chan struct{})
	require.NoError(t, must(ca.NewPD(ci.PDNormal)).DestroyAsync(func(error) { close(enter); <-leave }))
	wait(t, enter, "the destroy")
	done := make(chan struct{})
	require.NoError(t, a.CloseAsync(func(error) { close(done) }))
	_, err = al.Open(accesslayer.ClientConfig{Name: "b", Sole: "the well"})
	require.ErrorIs(t, err, ci.ResourceBusy)
	require.ErrorContains(t, err, `"a", which is being closed`)
	close(leave)
	wait(t, done, "the end of the client")
	require.NoError(t, a.Close())
	must(al.Open(accesslayer.ClientConfig{Name: "b", Sole: "the well"}))

	require.NoError(t, al.Close())
	for range 2 {
		_, err = al.Open(accesslayer.ClientConfig{Sole: "the well"})
		require.ErrorIs(t, err, accesslayer.ErrClosed, "and it is not held by one that was never there")
	}
}
