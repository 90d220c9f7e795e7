package linux

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/test/linux/guest"
	"ciddk/validate"
)

// certifier is the certifier of the guest's device.
const certifier = "ddk-validate-verbs"

// expectations is the file of what Linux's Soft-RoCE does differently, by design, in the guest.
const expectations = "/rxe.json"

// TestCertify certifies Linux's Soft-RoCE itself, through hca/verbs and libibverbs in the guest: a core of the cases,
// without that which waits for a receive of a QP in Error: rxe does not flush it.
func TestCertify(t *testing.T) {
	useLab(t).certify(t, 95, []string{"--device", "rxe0", "--exclude", "cq.destroy.quiet"},
		"pd.*", "cq.*", "qp.create.*", "opcode.*", "mr.*", "rc.*")
}

// TestCertifyWire certifies what Linux's Soft-RoCE sends and how it answers, with the certifier as its peer.
func TestCertifyWire(t *testing.T) {
	l := useLab(t)
	for _, c := range guest.WirePeer {
		r, err := l.linux.Run(t.Context(), c...)
		require.NoError(t, err)
		require.Zero(t, r.Code, "%v: %s", c, r.Stderr)
	}
	defer func() {
		_, err := l.linux.Run(context.WithoutCancel(t.Context()), "ip", "link", "delete", "v0")
		assert.NoError(t, err)
	}()
	args := append(slices.Clone(guest.WireArgs), "--device", "rxe1")
	l.certify(t, 25, args, "wire.ack.*", "wire.drop.*", "wire.take.*", "wire.read.*")
}

// certify runs cases in the guest. None of them may fail, and at least so many must pass.
func (l *lab) certify(t *testing.T, least int, args []string, cases ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	const report = "/tmp/report.json"
	args = append([]string{certifier, "run", "--expect", expectations, "--json", report, "--quiet", "--timeout", "60s"},
		args...)
	for _, c := range cases {
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
	assert.GreaterOrEqual(t, passed, least)
	assert.Zero(t, r.Code, "%s%s", r.Stdout, r.Stderr)
}
