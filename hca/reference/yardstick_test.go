package reference

import (
	"runtime"
	"sync/atomic"
)

// ringHop moves n messages of 64 bytes from one goroutine to another through a ring, in batches of 32, with a copy in and a copy out.
func ringHop(n int) {
	const slots, batch = 256, 32
	var ring [slots][64]byte
	var head, tail atomic.Uint64
	done := make(chan struct{})
	go func() {
		defer close(done)
		var out [64]byte
		for got := uint64(0); got < uint64(n); {
			have := head.Load() - got
			if have == 0 {
				runtime.Gosched()
				continue
			}
			for range min(have, batch) {
				out = ring[got%slots]
				got++
			}
			tail.Store(got)
		}
		runtime.KeepAlive(&out)
	}()
	var in [64]byte
	for sent := uint64(0); sent < uint64(n); {
		room := slots - (sent - tail.Load())
		if room == 0 {
			runtime.Gosched()
			continue
		}
		for range min(room, batch, uint64(n)-sent) {
			in[0]++
			ring[sent%slots] = in
			sent++
		}
		head.Store(sent)
	}
	<-done
}

// copyMiB copies 1 MiB n times.
func copyMiB(n int) {
	src, dst := make([]byte, 1<<20), make([]byte, 1<<20)
	for range n {
		copy(dst, src)
	}
}
