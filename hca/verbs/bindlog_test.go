//go:build linux && (amd64 || arm64)

package verbs

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ciddk/ci"
)

// deadWindow returns a window without a counterpart in the library.
func deadWindow(key ci.Key) *mw {
	w := &mw{executed: key}
	if err := w.refs.BeginDestroy("MW.Destroy", ci.InvalidMWHandle); err != nil {
		panic(err)
	}
	return w
}

// TestBindLog executes random send queues whose requests fail from some point on, and reports their completions. The
// key of each window is that of its last bind before the failure.
func TestBindLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := &bindLog{}
		windows := []*mw{deadWindow(1), deadWindow(2)}
		want := []ci.Key{1, 2}
		n := rapid.IntRange(1, 20).Draw(t, "requests")
		fails := rapid.IntRange(0, n).Draw(t, "fails from")
		type request struct {
			id         uint64
			isSignaled bool
		}
		var list []request
		for i := range n {
			r := request{uint64(i), rapid.Bool().Draw(t, "signaled")}
			if rapid.Bool().Draw(t, "bind") {
				k := rapid.IntRange(0, 1).Draw(t, "window")
				key := ci.Key(100 + i)
				windows[k].posted(key)
				log.add(r.id, r.isSignaled, windows[k], key)
				if i < fails {
					want[k] = key
				}
				require.Equal(t, key, windows[k].last())
			} else {
				log.add(r.id, r.isSignaled, nil, 0)
			}
			list = append(list, r)
		}
		last := -1 // request that a completion covers
		for i, r := range list {
			if i >= fails || r.isSignaled {
				log.done(r.id, i >= fails)
				last = i
			}
		}
		if last >= 0 && fails < n {
			for k, w := range windows {
				require.Equal(t, want[k], w.last(), "window %d", k)
			}
			require.Empty(t, log.entries)
		}
	})
}

// TestBindLogReset requires that a QP that goes to Reset takes its binds back.
func TestBindLogReset(t *testing.T) {
	log, w := &bindLog{}, deadWindow(7)
	w.posted(8)
	log.add(1, false, w, 8)
	w.posted(9)
	log.add(2, false, w, 9)
	log.reset()
	require.Equal(t, ci.Key(7), w.last())
	log.done(2, false) // of a request that is not in the log
	require.Empty(t, log.entries)
}
