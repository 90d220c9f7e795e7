package accesslayer_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/ci"
)

// endingCtx ends at its nth check. atEnd runs just before.
type endingCtx struct {
	context.Context
	cancel context.CancelFunc
	n      int
	atEnd  func()
}

func (c *endingCtx) Done() <-chan struct{} {
	if c.n--; c.n == 0 {
		c.atEnd()
		c.cancel()
	}
	return c.Context.Done()
}

// arrive adds a completion without a callback.
func (q *fakeCQ) arrive(wc ci.WC) {
	q.qmu.Lock()
	defer q.qmu.Unlock()
	q.queue = append(q.queue, wc)
}

// A completion that is queued when the context ends is returned, wherever in a wait the context ends. The next wait
// returns the context's error.
func TestCompletionWinsOverContext(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name string
		mode accesslayer.PollMode
		look int  // the context ends at this check
		held bool // another goroutine holds the baton
	}{
		{"asleep", accesslayer.PollEvent, 2, false},
		{"behind another one", accesslayer.PollEvent, 1, true},
		{"between polls", accesslayer.PollBusy, 1, false},
		{"before sleep", accesslayer.PollHybrid, 1, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			drv, _ := ci.As[*fakeCQ](r.cq)
			other, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			if x.held {
				asleep := make(chan struct{})
				first := &endingCtx{Context: other, cancel: func() {}, n: 2, atEnd: func() { close(asleep) }}
				go func() { _, err := r.cq.Wait(first, make([]ci.WC, 1)); ended <- err }()
				<-asleep
			}
			in, cancel := context.WithCancel(t.Context())
			ctx := &endingCtx{Context: in, cancel: cancel, n: x.look, atEnd: func() { drv.arrive(ci.WC{ID: 7}) }}
			wc := make([]ci.WC, 4)
			p := accesslayer.Poller{CQ: r.cq, Mode: x.mode}
			n, err := p.Next(ctx, wc)
			require.NoError(t, err)
			require.Equal(t, 1, n)
			require.EqualValues(t, 7, wc[0].ID)
			n, err = p.Next(ctx, wc)
			require.ErrorIs(t, err, context.Canceled)
			require.Zero(t, n)
			stop()
			if x.held {
				assert.ErrorIs(t, <-ended, context.Canceled)
			}
			require.NoError(t, r.cq.Destroy())
		})
	}
}
