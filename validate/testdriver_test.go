package validate_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/validate"
)

// vendorVar is the environment variable that makes TestVendor run. Its value is the fault of the driver.
const vendorVar = "VALIDATE_TEST_VENDOR"

// TestVendor is the test of a vendor. The tests below run it in processes of their own.
func TestVendor(t *testing.T) {
	fault := os.Getenv(vendorVar)
	if fault == "" {
		t.Skip("runs in processes of other tests")
	}
	validate.TestDriver(t, driver(fault), validate.TestOptions{Catalog: catalog()})
}

// vendor runs TestVendor as a vendor's go test would. It returns the output and whether the test passed.
func vendor(t *testing.T, fault, run string) (string, bool) {
	t.Helper()
	if os.Getenv(vendorVar) != "" {
		t.Skip("in such a process already: it must not start others")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run="+run, "-test.v", "-test.count=1")
	cmd.Env = append(os.Environ(), vendorVar+"="+fault)
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

// TestVendorFailure checks that a failure is printed with a command that runs the case again, alone.
func TestVendorFailure(t *testing.T) {
	out, ok := vendor(t, "panic:PD.CreateCQ", "^TestVendor$")
	assert.False(t, ok)
	again := `run '^TestVendor$/^a\.cq$'`
	require.Regexp(t, `again: (go test (-\S+ )*\S+ -|\S+ -test\.)`+regexp.QuoteMeta(again), out)
	assert.NotContains(t, out, "ddk-validate run")
	assert.Contains(t, out, "--- PASS: TestVendor/a.query")
	assert.Contains(t, out, "NOT CERTIFIED: 2 failed, 3 passed")

	_, run, _ := strings.Cut(again, "'")
	out, ok = vendor(t, "panic:PD.CreateCQ", strings.TrimSuffix(run, "'"))
	assert.False(t, ok)
	assert.Contains(t, out, "--- FAIL: TestVendor/a.cq")
	assert.NotContains(t, out, "TestVendor/a.query")
	assert.Contains(t, out, "SELECTION FAILED: 1 failed, nothing passed, 1 of 7 cases selected")
}

// TestVendorHostile checks that a driver under go test cannot forge results, and that its output cannot block the test.
func TestVendorHostile(t *testing.T) {
	out, ok := vendor(t, "hostile:forge", "^TestVendor$/^a.pd$")
	assert.False(t, ok)
	assert.Contains(t, out, "SELECTION FAILED: 1 failed, ")
	out, ok = vendor(t, "hostile:flood", "^TestVendor$/^a.pd$")
	assert.True(t, ok, out)
}

func TestVendorSelection(t *testing.T) {
	out, ok := vendor(t, "none", "^TestVendor$/^a")
	assert.True(t, ok)
	assert.Contains(t, out, "SELECTION PASSED: 3 of 7 cases selected, 3 passed")
	for _, nothing := range []string{"^TestVendor$/nosuch", "^TestVendor$/c.apm"} {
		out, ok = vendor(t, "none", nothing)
		assert.True(t, ok, "like go test when -run matches nothing")
		assert.Contains(t, out, "no case matches ")
		assert.Contains(t, out, "--- SKIP: TestVendor ")
	}
}

// TestVendorUnopened checks that the test fails with one explanation if the driver cannot be opened.
func TestVendorUnopened(t *testing.T) {
	t.Setenv(cardVar, t.TempDir()+"/nosuch/card")
	out, ok := vendor(t, "card", "^TestVendor$")
	assert.False(t, ok)
	assert.Equal(t, 1, strings.Count(out, "card is busy"), out)
}
