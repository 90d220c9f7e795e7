package mlx4_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
)

// TestFailTraffic ends an adapter while it writes: it is unplugged, it fails, or it resets itself. Every request
// completes, posts fail from then on, and another adapter goes on.
func TestFailTraffic(t *testing.T) {
	t.Parallel() // a reset is noticed up to a second later
	for name, end := range map[string]func(*single){
		"unplugged":          func(o *single) { o.f.Unplug() },
		"catastrophic error": func(o *single) { o.m.FailDevice() },
		"resets itself":      func(o *single) { o.m.Reset() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failTraffic(t, end)
		})
	}
}

func failTraffic(t *testing.T, fail func(*single)) {
	o, other := newSingle(t, true), newSingle(t, true)
	started, end := make(chan struct{}, 1), make(chan error, 1)
	var posted, completed int
	go func() {
		defer close(end)
		wc := make([]ci.WC, 8)
		for {
			n, err := o.writes(3)
			posted += n
			done, e := o.send.Poll(wc)
			completed += done
			switch {
			case e != nil:
				end <- e
				return
			case ci.StatusOf(err) == ci.InvalidState:
				for n := 1; n > 0; {
					n, _ = o.send.Poll(wc)
					completed += n
				}
				return
			case err != nil && ci.StatusOf(err) != ci.InsufficientResources:
				end <- err
				return
			}
			if completed > 100 {
				select {
				case started <- struct{}{}:
				default:
				}
			}
		}
	}()
	<-started
	fail(o)
	require.NoError(t, <-end)
	o.wait(t)
	assert.Equal(t, posted, completed)

	n, err := other.writes(2)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	var wc [2]ci.WC
	for got := 0; got < 2; {
		n, err := other.send.Poll(wc[got:])
		require.NoError(t, err)
		got += n
	}
	assert.Equal(t, ci.WCSuccess, wc[0].Status|wc[1].Status)
	o.close(t)
	other.close(t)
}

// writes posts n writes of the QP to its own memory.
func (o *single) writes(n int) (int, error) {
	r := o.mr.Region()
	wr := ci.SendWR{Op: ci.OpWrite, Flags: ci.SendSignaled, SGL: o.sge(), Remote: ci.Remote{Addr: r.Addr + 1024,
		RKey: r.RKey}}
	return o.qp.PostSend(slices.Repeat([]ci.SendWR{wr}, n))
}
