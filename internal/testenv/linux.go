package testenv

import (
	"os"
	"testing"
)

// requireLinux is the environment variable of machines that have everything that tests against Linux use.
const requireLinux = "CIDDK_REQUIRE_LINUX"

// Linux skips a test that boots Linux in a virtual machine: with -short, outside of a full run, and if missing is not
// nil, which then names what this machine lacks. If CIDDK_REQUIRE_LINUX is set in the environment, a missing dependency
// fails the test.
func Linux(t testing.TB, missing error) {
	t.Helper()
	switch {
	case testing.Short():
		t.Skip("boots a virtual machine; run without -short")
	case !Full() && os.Getenv(requireLinux) == "":
		t.Skipf("boots a virtual machine; runs in CI, with go run ./tools/check -full, or with %s=1", FullVariable)
	case missing == nil:
	case os.Getenv(requireLinux) != "":
		t.Fatalf("%v (%s is set)", missing, requireLinux)
	default:
		t.Skip(missing)
	}
}
