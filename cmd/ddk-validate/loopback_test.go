package main

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/validate"
)

// TestLoopback checks that workers of runs with near process ids have addresses of their own.
func TestLoopback(t *testing.T) {
	seen := map[netip.Addr]bool{}
	for _, first := range []int{2, 250*256 - 100, 1<<22 - 1000} {
		clear(seen)
		for run := first; run < first+600; run++ {
			for worker := range 63 {
				for i := range 4 {
					a := loopback(validate.Options{Run: run, Worker: worker}, i)
					require.True(t, a.IsLoopback())
					require.False(t, seen[a], "%v of run %d, worker %d", a, run, worker)
					seen[a] = true
				}
			}
		}
	}
}
