package linux

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/testenv"
	"ciddk/validate"
)

// certifier is the certifier of the guest's device.
const certifier = "ddk-validate-verbs"

// expectations is the file of what Linux's Soft-RoCE does differently, by design, in the guest.
const expectations = "/rxe.json"

// TestCertify certifies Linux's Soft-RoCE itself, through hca/verbs and libibverbs in the guest: a core of the cases.
func TestCertify(t *testing.T) {
	l := useLab(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*testenv.Patience)
	defer cancel()
	const report = "/tmp/report.json"
	args := []string{certifier, "run", "--device", "rxe0", "--expect", expectations, "--json", report, "--quiet",
		"--timeout", "60s", "--exclude", "cq.destroy.quiet"}
	for _, c := range []string{"pd.*", "cq.*", "qp.create.*", "opcode.*", "mr.*", "rc.*"} {
		args = append(args, "--case", c)
	}
	r, err := l.linux.Run(ctx, args...)
	require.NoError(t, err)
	file, err := l.linux.Run(ctx, "busybox", "cat", report)
	require.NoError(t, err)
	var rep validate.Report
	require.NoError(t, json.Unmarshal([]byte(file.Stdout), &rep), "%s%s", r.Stdout, r.Stderr)
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
	assert.GreaterOrEqual(t, passed, 95)
	assert.Zero(t, r.Code, "%s%s", r.Stdout, r.Stderr)
}
