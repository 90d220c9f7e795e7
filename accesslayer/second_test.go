package accesslayer_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/ci"
)

// TestSecondDestroy destroys objects whose destruction has begun and waits for a callback. Destroy of a QP waits as
// well. Destroy of an AV returns at once, also in that callback.
func TestSecondDestroy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		pd := must(r.ca.NewPD(ci.PDNormal))
		av := must(pd.NewAV(ci.AVAttr{Port: 1}))
		gate, second := make(chan struct{}), make(chan error, 2)
		qp := must(pd.NewQP(ci.QPCreate{SendCQ: r.cq, RecvCQ: r.cq}, func(*accesslayer.QP, ci.Event) {
			<-gate
			second <- av.Destroy() // it waits for this callback, since it is older than the QP
			<-gate
		}))
		drv, _ := ci.As[*fakeQP](qp)
		require.True(t, drv.fire(ci.EventQPFatal, 0))
		require.NoError(t, pd.DestroyAsync(nil))
		ended := make(chan error, 1)
		go func() { ended <- qp.Destroy() }()
		gate <- struct{}{}
		assert.ErrorIs(t, <-second, ci.InvalidAVHandle)
		synctest.Wait()
		assert.Empty(t, ended, "the QP exists")
		close(gate)
		err := <-ended
		assert.ErrorIs(t, err, ci.InvalidQPHandle)
		assert.ErrorIs(t, err, accesslayer.ErrClosed)
		assert.ErrorIs(t, pd.Destroy(), ci.InvalidPDHandle)
		require.NoError(t, r.ca.Destroy())
		assert.Empty(t, r.h.liveObjects())
	})
}
