package testenv

import (
	"os"
	"testing"
)

// Whole reports whether large matrices run whole, which the variable CIDDK_WHOLE requests. Otherwise, their cores run:
// the same ones everywhere and on every commit.
func Whole() bool { return os.Getenv(WholeVariable) != "" }

// OnlyWhole skips a long test that is not in the core.
func OnlyWhole(t testing.TB) {
	t.Helper()
	if !Whole() {
		t.Skipf("is not in the core; runs with go run ./tools/check -full -whole, or with %s=1", WholeVariable)
	}
}

// Sample returns the core of a list, or all of it with CIDDK_WHOLE set. It logs the choice.
func Sample[T any](t testing.TB, list []T, n int) []T {
	t.Helper()
	core := Core(list, n)
	if len(core) < len(list) {
		t.Logf("%d of %d; %s=1 runs all", len(core), len(list), WholeVariable)
	}
	return core
}

// Core returns one in n elements of a list, with the first, or all with CIDDK_WHOLE set. If the list alternates between
// two kinds of element, the core has both.
func Core[T any](list []T, n int) []T {
	if Whole() {
		return list
	}
	var core []T
	for i, v := range list {
		at := i
		if n%2 == 0 { // otherwise, of a list that alternates between two kinds, the core would have one
			at += i / n
		}
		if at%n == 0 {
			core = append(core, v)
		}
	}
	return core
}
