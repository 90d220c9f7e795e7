package accesslayer_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
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

// TestClientCloses closes a client in a callback of one of its objects, and another one beside a third client. Their
// objects are destroyed once, and those of the third client stay.
func TestClientCloses(t *testing.T) {
	t.Parallel()
	h, al, c, ca := setup(t)
	pd := must(ca.NewPD(ci.PDNormal))
	cq := must(pd.NewCQ(ci.CQCreate{Size: 4}, accesslayer.CQHandler{}))
	done := make(chan error, 2)
	must(pd.NewQP(ci.QPCreate{SendCQ: cq, RecvCQ: cq}, func(*accesslayer.QP, ci.Event) {
		assert.NoError(t, c.CloseAsync(func(err error) { done <- err }))
		assert.ErrorIs(t, c.CloseAsync(func(error) { t.Error("called twice") }), accesslayer.ErrClosed)
	}))
	other, third := must(al.Open(accesslayer.ClientConfig{})), must(al.Open(accesslayer.ClientConfig{}))
	theirs := must(must(other.OpenCA(h.info.GUID, nil)).NewPD(ci.PDNormal))
	kept := must(must(third.OpenCA(h.info.GUID, nil)).NewPD(ci.PDNormal))
	fireAll(h, "QP", ci.EventQPFatal)
	require.NoError(t, <-done)
	require.NoError(t, other.Close())
	for _, x := range []*accesslayer.Client{c, other} {
		require.NoError(t, x.Close(), "again")
		assert.Empty(t, x.Objects())
		_, err := x.OpenCA(h.info.GUID, nil)
		assert.ErrorIs(t, err, accesslayer.ErrClosed)
		_, err = x.RegisterPnP(accesslayer.PnPConfig{Remove: func(*accesslayer.Adapter, any) {}})
		assert.ErrorIs(t, err, accesslayer.ErrClosed)
	}
	_, err := cq.Query()
	assert.ErrorIs(t, err, accesslayer.ErrClosed)
	assert.ErrorIs(t, theirs.Destroy(), accesslayer.ErrClosed)
	must(kept.NewCQ(ci.CQCreate{Size: 4}, accesslayer.CQHandler{}))
	assert.Empty(t, h.violationList())
}
