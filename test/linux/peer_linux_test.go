package linux

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/testenv"
	"ciddk/test/linux/guest"
	"ciddk/validate"
)

// TestPeer judges Linux's Soft-RoCE from outside, by the command wire: stock programs serve in the guest, each again
// and again. What Linux does differently is in testdata/peer.json, with the reasons.
func TestPeer(t *testing.T) {
	l := useLab(t)
	testenv.Linux(t, missingPerftest())
	judge := filepath.Join(t.TempDir(), "ddk-validate")
	c := exec.CommandContext(t.Context(), "go", "build", "-o", judge, "ciddk/cmd/ddk-validate")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	theirs := l.net.Addr4(l.linux.Index())
	gid := strconv.Itoa(l.linux.GIDIndex(theirs))
	for _, x := range testenv.Sample(t, []struct {
		program, server string
		options         []string
		min             int // cases that pass
	}{
		{"rping", "rping -s -P -S 3000 -a " + theirs.String(), []string{"--size", "3000"}, 36},
		{"rc_pingpong", "ibv_rc_pingpong -d " + guest.Device + " -g " + gid, nil, 24},
		{"ib_write_bw", "ib_write_bw -F -d " + guest.Device + " -x " + gid, nil, 22},
		{"ib_read_bw", "ib_read_bw -F -d " + guest.Device + " -x " + gid, nil, 20},
		{"ib_send_bw", "ib_send_bw -F -d " + guest.Device + " -x " + gid, nil, 18},
		{"ib_atomic_bw", "ib_atomic_bw -F -d " + guest.Device + " -x " + gid, nil, 16},
	}, 3) {
		t.Run(x.program, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			loop := "while :; do " + x.server + "; done"
			server, err := l.linux.Start(ctx, "busybox", "sh", "-c", loop)
			require.NoError(t, err)
			defer func() { _, _ = server.Wait() }() // it was killed
			defer cancel()
			report := filepath.Join(t.TempDir(), "report.json")
			expect, err := filepath.Abs("testdata/peer.json")
			require.NoError(t, err)
			p, err := l.net.Start(ctx, append([]string{judge, "wire", "--peer", theirs.String(), "--program", x.program,
				"--expect", expect, "--timeout", "30s", "--quiet", "--json", report, "--pcap",
				os.Getenv("CIDDK_TEST_PCAP")}, x.options...)...)
			require.NoError(t, err)
			r, err := p.Wait()
			require.NoError(t, err)
			b, err := os.ReadFile(report)
			require.NoError(t, err, "%s%s", r.Stdout, r.Stderr)
			var rep validate.Report
			require.NoError(t, json.Unmarshal(b, &rep))
			t.Log(rep.Verdict.Line)
			assert.GreaterOrEqual(t, rep.Verdict.Counts[validate.Pass], x.min)
			assert.Zero(t, r.Code, "%s%s", r.Stdout, r.Stderr)
		})
	}
}
