package rings

import (
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/rvt"
)

const hops = 20000

// TestConcurrent checks that one producer and one consumer, each on a goroutine of its own, transfer every request once
// and in order.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	t.Run("send", func(t *testing.T) {
		t.Parallel()
		r, err := RXE{}.SendRing(15, 1, 16, nil)
		require.NoError(t, err)
		av := new(faceAV)
		produceConsume(t, func(id uint64) bool {
			wrs := []ci.SendWR{{ID: id, SGL: []ci.SGE{{Addr: id, Length: 1}}}}
			switch id % 3 {
			case 1:
				wrs[0].To.AV = av
			case 2:
				wrs[0].Inline = []byte{byte(id)}
			}
			return r.Post(wrs, faces{}) == 1
		}, func(id uint64) bool {
			var w rvt.Work
			if !r.Next(&w) {
				return false
			}
			require.Equal(t, id, w.ID)
			require.Equal(t, id%3 == 1, w.AV != nil)
			if id%3 == 2 {
				require.Equal(t, []byte{byte(id)}, w.Inline)
			} else {
				require.Equal(t, id, w.SGL[0].Addr)
			}
			r.Retire(1)
			return true
		})
		require.Zero(t, r.Len())
	})
	t.Run("recv", func(t *testing.T) {
		t.Parallel()
		r, err := RXE{}.RecvRing(15, 1, nil)
		require.NoError(t, err)
		produceConsume(t, func(id uint64) bool {
			return r.Post([]ci.RecvWR{{ID: id, SGL: []ci.SGE{{Addr: id}}}}) == 1
		}, func(id uint64) bool {
			var w rvt.RecvWork
			if !r.Next(&w) {
				return false
			}
			require.Equal(t, id, w.ID)
			require.Equal(t, id, w.SGL[0].Addr)
			return true
		})
	})
	t.Run("completion", func(t *testing.T) {
		t.Parallel()
		r, err := RXE{}.CompletionRing(15, nil)
		require.NoError(t, err)
		produceConsume(t, func(id uint64) bool { return r.Put(&ci.WC{ID: id, Context: id}) }, func(id uint64) bool {
			var wc [1]ci.WC
			if r.Get(wc[:]) == 0 {
				return false
			}
			require.Equal(t, id, wc[0].ID)
			require.Equal(t, id, wc[0].Context)
			return true
		})
	})
}

func produceConsume(t *testing.T, produce, consume func(id uint64) bool) {
	var wg sync.WaitGroup
	wg.Go(func() {
		for id := uint64(0); id < hops && !t.Failed(); {
			if produce(id) {
				id++
			} else {
				runtime.Gosched()
			}
		}
	})
	for id := uint64(0); id < hops; {
		if consume(id) {
			id++
		} else {
			runtime.Gosched()
		}
	}
	wg.Wait()
}
