//go:build race

package ual

// copyBytes copies as an adapter does: without an order that the program could rely on, other than that of completions.
// The race detector sees no order in completions of shared queues, and must not see the copy.
//
//go:norace
func copyBytes(to, from []byte) {
	for i := range from {
		to[i] = from[i]
	}
}
