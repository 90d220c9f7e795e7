package verbs

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/testenv"
	"ciddk/validate"
)

// TestCertify certifies the daemon's adapter as a program sees it: through hca/verbs, the system's libibverbs and its
// stock provider. Without CIDDK_WHOLE it runs a core of the cases.
func TestCertify(t *testing.T) {
	r := newRig(t)
	out := t.TempDir()
	args := []string{"--expect", "testdata/certify.json",
		"--exclude", "al.*", "--exclude", "cm.*", "--exclude", "wire.*", "--quiet",
		"--timeout", "60s"} // each verb of the control path is a call of the daemon, on a machine that may be busy
	want := 550
	if !testenv.Whole() {
		list := []string{"qp.create.*", "opcode.*", "mw.*", "srq.*"}
		if want = 80; testenv.Full() {
			list = append(list, "qp.*", "cq.*", "ud.*", "rc.*", "atomic.*", "mcast.*", "model.explore")
			want = 200
		}
		for _, pattern := range list {
			args = append(args, "--case", pattern)
		}
	}
	// The script of the action; the time of the package's tests is its only limit.
	cmd := exec.CommandContext(t.Context(), ddkrun, "../../.github/certify")
	cmd.Env = append(r.env, "DEVICE=rxe_ddk0", "OUT="+out, "ARGS="+strings.Join(args, " "))
	printed, err := cmd.CombinedOutput()
	b, readErr := os.ReadFile(filepath.Join(out, "report.json"))
	require.NoError(t, readErr, "%v: %s", err, printed)
	var rep validate.Report
	require.NoError(t, json.Unmarshal(b, &rep))
	passed := 0
	for _, c := range rep.Results {
		switch c.Status {
		case validate.Pass:
			passed++
		case validate.Skip, validate.Waived:
		default:
			assert.Fail(t, c.Case, "%s: %s %+v", c.Status, c.Reason, c.Failures)
		}
	}
	assert.GreaterOrEqual(t, passed, want)
	require.NoError(t, err, "%s", printed)
	assert.FileExists(t, filepath.Join(out, "junit.xml"))
	assert.FileExists(t, filepath.Join(out, "report.html"))
}
