package verbs

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/testenv"
	"ciddk/validate"
)

// TestPeer judges the kit's adapter from outside, by the command wire of the certifier, under stock programs that serve
// again and again.
func TestPeer(t *testing.T) {
	bin := build(t, "build", "ciddk/cmd/ddk-validate")
	digits, pid := 1<<8-1, os.Getpid()
	base := fmt.Sprintf("127.%d.%d.", 1+pid>>8%digits, pid&digits)
	r := newRigOf(t, "address="+base+"9")
	for _, x := range testenv.Sample(t, []struct {
		server, options string
		passed          int
	}{
		{"rping -s -P -S 3000 -a " + base + "9", "--size 3000", 39},
		{"ib_read_bw -F", "", 22},
		{"ibv_rc_pingpong -g 0", "--program rc_pingpong", 26},
		{"ib_send_bw -F", "", 20},
		{"ib_write_bw -F", "", 22},
		{"ib_atomic_bw -F", "", 18},
	}, 3) {
		name, _, _ := strings.Cut(x.server, " ")
		t.Run(name, func(t *testing.T) {
			require.True(t, isInstalled("", name) || os.Getenv("CI") == "", "%s is not installed", name)
			loop, out := r.command("sh", "-c", "while :; do "+x.server+"; done")
			loop.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			require.NoError(t, loop.Start())
			defer func() {
				assert.NoError(t, syscall.Kill(-loop.Process.Pid, syscall.SIGKILL), "the servers ended: %s", out)
				assert.Error(t, loop.Wait())
			}()
			report := filepath.Join(t.TempDir(), "report.json")
			args := []string{"wire", "--peer", base + "9", "--local", base + "10", "--json", report, "--quiet",
				"--timeout", "20s"}
			if x.options == "" {
				args = append(args, "--program", name)
			}
			judge := exec.CommandContext(t.Context(), bin, append(args, strings.Fields(x.options)...)...)
			text, err := judge.CombinedOutput()
			b, readErr := os.ReadFile(report)
			require.NoError(t, readErr, "%v: %s", err, text)
			var rep validate.Report
			require.NoError(t, json.Unmarshal(b, &rep))
			assert.GreaterOrEqual(t, rep.Verdict.Counts[validate.Pass], x.passed)
			assert.NoError(t, err, "%s", text)
		})
	}
}
