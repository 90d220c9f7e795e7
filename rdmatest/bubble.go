package rdmatest

import (
	"testing"
	"testing/synctest"
	"time"
)

// requireBubble calls t.Fatalf if the caller is not in a testing/synctest bubble, or if t is not the bubble's.
func requireBubble(t testing.TB) {
	t.Helper()
	if doesPanic(synctest.Wait) {
		t.Fatalf("rdmatest.New: not in a testing/synctest bubble: call it in the function that synctest.Test runs")
	}
	// Deadline is one of the methods that panic in a bubble, and has no effect otherwise.
	if d, ok := t.(interface{ Deadline() (time.Time, bool) }); ok && !doesPanic(func() { d.Deadline() }) {
		t.Fatalf("rdmatest.New: t is not the bubble's: pass the t of the function that synctest.Test runs")
	}
}

// doesPanic reports whether f panics.
func doesPanic(f func()) (panics bool) {
	defer func() { panics = recover() != nil }()
	f()
	return false
}
