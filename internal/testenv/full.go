package testenv

import (
	"os"
	"testing"
)

const (
	// FullVariable is the environment variable that enables virtual machines and measurements. tools/check sets it
	// with -full.
	FullVariable = "CIDDK_FULL"
	// WholeVariable is the environment variable that enables whole matrices. tools/check sets it with -whole.
	WholeVariable = "CIDDK_WHOLE"
)

// Full reports whether this run includes virtual machines and measurements: in CI, or with CIDDK_FULL set.
func Full() bool { return os.Getenv("CI") == "true" || os.Getenv(FullVariable) != "" }

// Long skips a test that takes many seconds of processor time, with -short: the second command of the README does not
// run it. Such a test has shorter ones beside it that are enough for most changes.
func Long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes long; run without -short")
	}
}

// Measurement skips a test that measures time or memory, or that moves gigabytes, with -short and outside of a full
// run.
func Measurement(t testing.TB) {
	t.Helper()
	switch {
	case testing.Short():
		t.Skip("measures; run without -short")
	case !Full():
		t.Skipf("measures; runs in CI, with go run ./tools/check -full, or with %s=1", FullVariable)
	}
}
