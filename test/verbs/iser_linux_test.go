package verbs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/testenv"
)

// TestISER exports a file by tgt over iSER, and has libiscsi read and write it, and compare what it has read.
func TestISER(t *testing.T) {
	testenv.Long(t)
	for _, program := range []string{"tgtadm", "iscsi-test-cu"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err, "(Debian: tgt, libiscsi-bin)")
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("tgtd needs root")
	}
	r := newRig(t)
	dir := t.TempDir()
	disk := filepath.Join(dir, "disk")
	require.NoError(t, os.WriteFile(disk, make([]byte, 8<<20), 0o600))
	r.env = append(r.env, "TGT_IPC_SOCKET="+filepath.Join(dir, "tgt"))
	target, _ := r.command("tgtd", "-f", "--iscsi", fmt.Sprintf("portal=127.0.0.1:%d", freePort(t)), "--iser",
		"pool_sz_mb=32")
	require.NoError(t, target.Start())
	t.Cleanup(func() {
		_ = target.Process.Signal(syscall.SIGKILL) // tgtd goes on while it has targets
		_ = target.Wait()
	})
	admin := func(args ...string) error {
		cmd := exec.Command("tgtadm", append([]string{"--lld", "iser", "--tid", "1", "--mode"}, args...)...)
		cmd.Env = r.env
		return cmd.Run()
	}
	const name, initiator = "iqn.2026-01.org.example:disk", "iqn.2026-01.org.example:test"
	require.Eventually(t, func() bool { return admin("target", "--op", "new", "-T", name) == nil }, patience,
		20*time.Millisecond)
	require.NoError(t, admin("logicalunit", "--op", "new", "--lun", "1", "-b", disk))
	require.NoError(t, admin("target", "--op", "bind", "-I", "ALL"))
	require.NoError(t, admin("target", "--op", "bind", "-Q", initiator))
	url := "iser://10.0.0.1:3260/" + name + "/1"
	assert.Contains(t, r.run("iscsi-readcapacity16", "-i", initiator, url), "Total size:8388608")
	for _, test := range []string{"Write10.Simple", "Verify10.Mismatch"} {
		assert.Contains(t, r.run("iscsi-test-cu", "-i", initiator, "--dataloss", "--test", "SCSI."+test, url),
			"return value: 0", test)
	}
}
