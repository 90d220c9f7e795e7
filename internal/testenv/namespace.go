package testenv

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// inNamespace is set in the environment of the process that runs in a network namespace of its own.
const inNamespace = "CIDDK_TEST_NAMESPACE"

// Namespace runs a test in a network namespace of its own, by starting the test's program again, and reports true in
// that process. There the commands of setup, for a shell, have run. It skips the test if that is not possible here:
// without unshare or ip, or if one of the commands fails.
func Namespace(t testing.TB, setup string) bool {
	t.Helper()
	if os.Getenv(inNamespace) != "" {
		return true
	}
	for _, tool := range []string{"unshare", "ip"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	script := "set -e\ntrap 'exit 77' EXIT\n" + setup + "\nexec \"$0\" \"$1\" -test.v"
	cmd := exec.CommandContext(t.Context(), "unshare", "-rn", "sh", "-c", script, os.Args[0],
		"-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), inNamespace+"=1")
	out, err := cmd.CombinedOutput()
	isRun := strings.Contains(string(out), "=== RUN   "+t.Name())
	if e, ok := errors.AsType[*exec.ExitError](err); ok && !isRun && (e.ExitCode() == 77 || e.ExitCode() == 1) {
		t.Skipf("no network namespaces here: %s", out)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("in a network namespace: %v\n%s", err, out)
	}
	return false
}
