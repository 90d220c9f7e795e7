//go:build race

package ual

import "encoding/binary"

// copyBytes copies as an adapter does: without an order that the program could rely on, other than that of completions.
// The race detector sees no order in completions of shared queues, and must not see the copy. Eight bytes, such as the
// index of a queue, are stored at once, as copy does.
//
//go:norace
func copyBytes(to, from []byte) {
	if len(from) == 8 {
		binary.NativeEndian.PutUint64(to, binary.NativeEndian.Uint64(from))
		return
	}
	for i := range from {
		to[i] = from[i]
	}
}
