package bench

import (
	"runtime"
	"sync/atomic"
)

// ringHop moves n messages of 64 bytes from one goroutine to another through a ring, with a copy in and a copy out.
// Both sides publish their index once for up to per messages.
func ringHop(n, per int) {
	const slots = 256
	var ring [slots][small]byte
	var head, tail atomic.Uint64
	done := make(chan struct{})
	go func() {
		defer close(done)
		var out [small]byte
		for got := uint64(0); got < uint64(n); {
			have := head.Load() - got
			if have == 0 {
				runtime.Gosched()
				continue
			}
			for range min(have, uint64(per)) {
				out = ring[got%slots]
				got++
			}
			tail.Store(got)
		}
		runtime.KeepAlive(&out)
	}()
	var in [small]byte
	for sent := uint64(0); sent < uint64(n); {
		room := slots - (sent - tail.Load())
		if room == 0 {
			runtime.Gosched()
			continue
		}
		for range min(room, uint64(per), uint64(n)-sent) {
			in[0]++
			ring[sent%slots] = in
			sent++
		}
		head.Store(sent)
	}
	<-done
}
