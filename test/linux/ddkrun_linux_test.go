package linux

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/testenv"
	"ciddk/test/linux/guest"
)

// TestYama runs programs by ddkrun where the Yama security module restricts access to the memory of processes, as root
// and as another user, with both carriers. The carrier preload shares memory. Where seccomp cannot read the paths of
// calls, ddkrun fails, so that no program finds the guest's own devices. The guest has the libraries that its programs
// need, and not libdl.so.2.
func TestYama(t *testing.T) {
	testenv.Long(t)
	testenv.Linux(t, guest.Available())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	program := filepath.Join(t.TempDir(), "ddkrun")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "ciddk/cmd/ddkrun")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	network, err := guest.NewNetwork(ctx, guest.NetworkConfig{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, network.Close()) })
	g, err := network.Boot(ctx, guest.Config{MemoryMB: 1024, Programs: []string{"busybox", "setpriv", program}})
	require.NoError(t, err)
	const script = `echo %d > /proc/sys/kernel/yama/ptrace_scope
cd /tmp
export TMPDIR=/tmp HOME=/none CI=1
run="%s/usr/bin/ddkrun --carrier %s"
`
	const transfer = `$run /usr/bin/ibv_rc_pingpong -g 0 -n 20 -e &
$run --wait-port 18515 /usr/bin/ibv_rc_pingpong -g 0 -n 20 -e 127.0.0.1
wait`
	const user = "/usr/bin/setpriv --reuid 1000 --regid 1000 --clear-groups "
	for scope := 1; scope <= 3; scope++ { // it cannot be less again
		for _, who := range []string{"", user} {
			for _, carrier := range []string{"preload", "seccomp"} {
				isRefused := carrier == "seccomp" && (scope == 3 || scope == 2 && who != "")
				commands := transfer
				if isRefused {
					commands = "$run /usr/bin/ibv_devinfo"
				}
				r, err := g.Run(ctx, "busybox", "sh", "-c", fmt.Sprintf(script, scope, who, carrier)+commands)
				require.NoError(t, err)
				if isRefused {
					assert.Contains(t, r.Stderr, "kernel.yama.ptrace_scope")
					assert.Empty(t, r.Stdout)
					continue
				}
				assert.Contains(t, r.Stdout, "20 iters in", "%d %s %s: %s", scope, who, carrier, r.Stderr)
				assert.Contains(t, r.Stdout, "GID ::ffff:127.0.0.1")
			}
		}
	}
}
