package rvt

import (
	"sync/atomic"

	"ciddk/ci"
)

// pkeyMatch reports whether two P_Keys match: the same partition, and not both limited members (IBTA volume 1, 10.9.3).
// A key of partition 0 is invalid and matches none (10.9.1.2): a QP without an entry in the table has key 0.
func pkeyMatch(a, b ci.PKey) bool { return (a^b)&0x7fff == 0 && (a|b)&0x8000 != 0 && a&0x7fff != 0 }

func saturate(c *atomic.Uint32) {
	if c.Load() < 0xffff {
		c.Add(1)
	}
}
