package passedfd

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"ciddk/clock"
)

// closer is a descriptor whose close takes until it is released.
type closer chan struct{}

func (c closer) Close() error {
	<-c
	return io.ErrClosedPipe // the error has no effect
}

// TestDiscarder closes descriptors while the close of one does not end: its user waits for a limited time, and others
// do not wait. When it ends, all are closed, and the user is served again.
func TestDiscarder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDiscarder(clock.Real())
		slow, ready := make(closer), make(closer)
		close(ready)
		d.Close(1)
		d.Close(1, ready, ready)
		assert.False(t, d.IsStuck(1))

		began := time.Now()
		d.Close(1, slow)
		assert.LessOrEqual(t, time.Since(began), 2*discardLimit)
		assert.True(t, d.IsStuck(1))
		began = time.Now()
		last := make(closer)
		d.Close(1, last)
		d.Close(2, ready)
		assert.Zero(t, time.Since(began), "nobody waits")
		assert.False(t, d.IsStuck(2))

		close(slow)
		synctest.Wait()
		assert.True(t, d.IsStuck(1), "until all are closed")
		close(last)
		synctest.Wait()
		assert.False(t, d.IsStuck(1))
		assert.Empty(t, d.users)
		time.Sleep(3 * discardLimit) // no timer is left
		d.Close(1, ready)
		assert.False(t, d.IsStuck(1))
	})
}

// TestDiscardSlowly closes many descriptors, none of which takes too long.
func TestDiscardSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDiscarder(clock.Real())
		for range 10 {
			c := make(closer)
			time.AfterFunc(discardLimit-1, func() { close(c) })
			d.Close(1, c)
			<-c
			assert.False(t, d.IsStuck(1))
		}
	})
}
