package rvt

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
)

// withRings lets a memRig make queues.
func withRings(cfg *Config) { cfg.Rings = plainRings{} }

func TestVectorOutOfRange(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		vectors int // of the configuration
		want    int
	}{
		"default":  {0, defaultVectors},
		"one":      {1, 1},
		"three":    {3, 3},
		"negative": {-1, 1},
		"too many": {1 << 20, maxVectors},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newMemRig(t, func(cfg *Config) { withRings(cfg); cfg.Attr.Vectors = c.vectors })
			a, err := r.ca.Query()
			require.NoError(t, err)
			require.Equal(t, c.want, a.Vectors)
			for _, v := range []int{0, 1, c.want} {
				cq, err := r.pd.CreateCQ(ci.CQCreate{Size: 1, Affinity: ci.Affinity{Vector: uint16(v)}})
				require.NoError(t, err, "vector %d", v)
				require.NoError(t, cq.Destroy())
			}
			if c.want < maxVectors {
				_, err = r.pd.CreateCQ(ci.CQCreate{Size: 1, Affinity: ci.Affinity{Vector: uint16(c.want + 1)}})
				require.ErrorIs(t, err, ci.InvalidParameter)
				require.ErrorContains(t, err, "Affinity.Vector")
			}
			r.close()
		})
	}
}

// vectorRig has CQs on the given vectors. Their callbacks begin with a message on began and end when ends is closed.
type vectorRig struct {
	*memRig
	cqs   []*CQ
	began chan int
	ends  []chan struct{}
}

func newVectorRig(t *testing.T, vectors ...uint16) *vectorRig {
	r := &vectorRig{memRig: newMemRig(t, withRings), began: make(chan int, 100)}
	for i, v := range vectors {
		end := make(chan struct{})
		cq, err := r.pd.CreateCQ(ci.CQCreate{Size: 8, Affinity: ci.Affinity{Vector: v}, OnCompletion: func(any) {
			r.began <- i
			<-end
		}, OnEvent: func(ci.Event) { r.began <- 100 + i }})
		require.NoError(t, err)
		r.cqs, r.ends = append(r.cqs, cq.(*CQ)), append(r.ends, end)
	}
	return r
}

// callbacks returns the callbacks that have begun, in order, when no goroutine has anything left to do.
func (r *vectorRig) callbacks() (list []int) {
	synctest.Wait()
	for len(r.began) > 0 {
		list = append(list, <-r.began)
	}
	return list
}

// complete makes the completion callback of CQ i due.
func (r *vectorRig) complete(i int) {
	q := r.cqs[i]
	require.NoError(r.t, q.Notify(ci.NotifyNext))
	q.put([]pendingWC{{cq: q, wc: ci.WC{ID: 1}}})
}

func (r *vectorRig) closeAll() {
	for i, q := range r.cqs {
		if r.ends[i] != nil {
			close(r.ends[i])
		}
		if q != nil {
			require.NoError(r.t, q.Destroy())
		}
	}
	r.close()
}

// TestSlowCallbackDelaysItsVectorOnly checks that vectors deliver independently, and that one vector delivers one
// callback at a time.
func TestSlowCallbackDelaysItsVectorOnly(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newVectorRig(t, 1, 1, 2, 0, 0)
		r.complete(0)
		require.Equal(t, []int{0}, r.callbacks())
		for i := 1; i < 5; i++ {
			r.complete(i)
		}
		assert.ElementsMatch(t, []int{2, 3, 4}, r.callbacks(), "CQ 1 waits for CQ 0; a CQ without a vector waits for "+
			"none")
		close(r.ends[0])
		r.ends[0] = nil
		assert.Equal(t, []int{1}, r.callbacks())
		r.closeAll()
	})
}

// TestVectorTakesTurns checks that a CQ whose callbacks never end does not keep the others of its vector waiting.
func TestVectorTakesTurns(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newMemRig(t, withRings)
		aff := ci.Affinity{Vector: 1}
		var busy ci.CQ
		rounds, stop := 0, false
		busy, err := r.pd.CreateCQ(ci.CQCreate{Size: 8, Affinity: aff, OnCompletion: func(any) {
			rounds++
			if q := busy.(*CQ); !stop {
				assert.NoError(t, q.Notify(ci.NotifyNext))
				q.put([]pendingWC{{cq: q}})
				var wc [8]ci.WC
				_, err := q.Poll(wc[:])
				assert.NoError(t, err)
			}
		}})
		require.NoError(t, err)
		other, err := r.pd.CreateCQ(ci.CQCreate{Size: 8, Affinity: aff, OnCompletion: func(any) { stop = true }})
		require.NoError(t, err)
		for _, q := range []*CQ{busy.(*CQ), other.(*CQ)} {
			require.NoError(t, q.Notify(ci.NotifyNext))
		}
		for _, q := range []*CQ{busy.(*CQ), other.(*CQ)} {
			q.put([]pendingWC{{cq: q}})
		}
		synctest.Wait() // returns only if the other CQ had its turn
		assert.True(t, stop)
		assert.NotZero(t, rounds)
		require.NoError(t, busy.Destroy())
		require.NoError(t, other.Destroy())
		r.close()
	})
}

// TestDestroyDoesNotWaitForTheVector checks that a CQ that waits for its turn can be destroyed while the callback of
// another CQ runs, and that its callback does not run afterwards.
func TestDestroyDoesNotWaitForTheVector(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newVectorRig(t, 1, 1)
		r.complete(0)
		require.Equal(t, []int{0}, r.callbacks())
		r.complete(1)
		require.NoError(t, r.cqs[1].Destroy())
		r.cqs[1] = nil
		close(r.ends[0])
		r.ends[0] = nil
		require.Empty(t, r.callbacks())
		r.closeAll()
	})
}

// TestVectorKeepsCallbacksOfOneCQInOrder checks that events and completions of a CQ with a vector do not run at once.
func TestVectorKeepsCallbacksOfOneCQInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newVectorRig(t, 1)
		r.complete(0)
		require.Equal(t, []int{0}, r.callbacks())
		r.cqs[0].notify.Event(ci.Event{Type: ci.EventCQError})
		require.Empty(t, r.callbacks())
		close(r.ends[0])
		r.ends[0] = nil
		require.Equal(t, []int{100}, r.callbacks())
		r.closeAll()
	})
}
