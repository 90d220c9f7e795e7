package verbs

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ciddk/internal/seccomp"
)

// newSeccompRig returns a rig for programs that use the carrier seccomp.
func newSeccompRig(t *testing.T) *rig {
	if err := seccomp.Check(); err != nil {
		t.Skip(err)
	}
	return newRigWithout(t, "link=network,address=10.0.0.1", "--max-clients-per-user", "16")
}

// raw runs one of rawPrograms.
func (r *rig) raw(name string) {
	r.t.Helper()
	assert.Contains(r.t, r.run("--carrier", "seccomp", ddkrun, rawArg, name), "raw program: success")
}

// TestStatic lists the device tree with a static program, for which ddkrun chooses the carrier by itself.
func TestStatic(t *testing.T) {
	r := newSeccompRig(t)
	if _, err := exec.LookPath("busybox"); err != nil {
		t.Skip("busybox is not installed (Debian: busybox-static)")
	}
	out, err := exec.Command("file", "-L", "/bin/busybox").Output()
	if err == nil && !strings.Contains(string(out), "static") {
		t.Skip("busybox is not static (Debian: busybox-static)")
	}
	assert.Contains(t, r.run("busybox", "ls", "/sys/class/infiniband"), "rxe_ddk0")
	assert.Equal(t, "1: CA\n", r.run("busybox", "cat", "/sys/class/infiniband/rxe_ddk0/node_type"))
	assert.Contains(t, r.run("busybox", "ls", "-l", "/dev/infiniband"), "231, 192")
	assert.Contains(t, r.run("--explain", "busybox"), "carrier:  seccomp (")
}

// TestRaw runs verbs programs that make system calls by themselves: they transfer data, make wrong calls, use threads,
// open devices again and again, and start children.
func TestRaw(t *testing.T) {
	for _, name := range []string{"transfer", "hostile", "threads", "reopen", "children", "ioctls", "netlink"} {
		t.Run(name, func(t *testing.T) { newSeccompRig(t).raw(name) })
	}
}

// TestSeccompPrograms runs programs with libraries on the carrier.
func TestSeccompPrograms(t *testing.T) {
	if skip != "" {
		t.Skip(skip)
	}
	for _, x := range []string{"ibv_rc_pingpong -g 0 -n 50 -c", "ibv_rc_pingpong -g 0 -n 50 -e -c"} {
		t.Run(x, func(t *testing.T) {
			r := newSeccompRig(t)
			r.flags = []string{"--carrier", "seccomp"}
			assert.Contains(t, r.pair(strings.Fields(x)...), "50 iters in")
		})
	}
}

// TestContainerProfile runs programs on the carrier where pidfd_getfd is forbidden, as in containers: with a completion
// channel, and with librdmacm.
func TestContainerProfile(t *testing.T) {
	if skip != "" {
		t.Skip(skip)
	}
	forbid := compile(t, "forbid.c")
	confined := func(t *testing.T) *rig {
		r := newSeccompRig(t)
		r.before, r.flags = []string{forbid, "container"}, []string{"--carrier", "seccomp"}
		return r
	}
	t.Run("ibv_rc_pingpong -e", func(t *testing.T) {
		assert.Contains(t, confined(t).pair("ibv_rc_pingpong", "-g", "0", "-n", "50", "-e"), "50 iters in")
	})
	t.Run("ucmatose", func(t *testing.T) {
		assert.Contains(t, confined(t).connect("ucmatose", "ucmatose -s 10.0.0.1", false), "return status 0")
	})
}

// TestOldKernels runs programs with the calls of older kernels: the carrier preload works, and the other one says what
// is missing.
func TestOldKernels(t *testing.T) {
	if skip != "" {
		t.Skip(skip)
	}
	forbid := compile(t, "forbid.c")
	for version, missing := range map[string]string{"4.18": "SECCOMP_FILTER_FLAG_NEW_LISTENER",
		"5.4": "SECCOMP_ADDFD_FLAG_SEND"} {
		t.Run(version, func(t *testing.T) {
			r := newSeccompRig(t)
			r.before = []string{forbid, version}
			assert.Contains(t, r.pair("ibv_rc_pingpong", "-g", "0", "-n", "50", "-c"), "50 iters in")
			cmd, out := r.command("--carrier", "seccomp", "true")
			require.Error(t, cmd.Run())
			assert.Contains(t, out.String(), "no carrier works: --carrier seccomp; seccomp user notification is not "+
				"available: the kernel does not have it (Linux 5.14 does): "+missing)
		})
	}
}

// TestSeccompStatus checks exit statuses, and children that outlive the program.
func TestSeccompStatus(t *testing.T) {
	r := newSeccompRig(t)
	for script, code := range map[string]int{"exit 7": 7, "kill -TERM $$": -1} {
		cmd, _ := r.command("--carrier", "seccomp", "sh", "-c", script)
		var exit *exec.ExitError
		require.ErrorAs(t, cmd.Run(), &exit, script)
		assert.Equal(t, code, exit.ExitCode(), script)
	}
	out := r.t.TempDir() + "/out"
	r.run("--carrier", "seccomp", "sh", "-c", "(sleep 0.3; ls /sys/class/infiniband >"+out+".new && mv "+out+".new "+
		out+") >/dev/null 2>&1 &")
	require.Eventually(t, func() bool {
		b, err := os.ReadFile(out)
		return err == nil && strings.TrimSpace(string(b)) == "rxe_ddk0"
	}, patience, 10*time.Millisecond)
}

// TestSupervisorKilled kills the supervisor: calls that it would execute fail, and ddkrun reports it.
func TestSupervisorKilled(t *testing.T) {
	r := newSeccompRig(t)
	cmd, stderr := r.command("--carrier", "seccomp", ddkrun, rawArg, "orphan")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	cmd.Stdout = nil
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	require.NoError(t, err, "%s", stderr)
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err)
	require.NoError(t, unix.Kill(pid, unix.SIGKILL))
	_, err = in.Write([]byte("x"))
	require.NoError(t, err)
	line, err = lines.ReadString('\n')
	require.NoError(t, err, "%s", stderr)
	assert.Equal(t, "raw program: success\n", line)
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Wait(), &exit)
	assert.Equal(t, 125, exit.ExitCode())
	assert.Contains(t, stderr.String(), "the supervisor of the program was killed")
}

// TestNested runs ddkrun in a program of ddkrun.
func TestNested(t *testing.T) {
	r := newSeccompRig(t)
	cmd, out := r.command("--carrier", "seccomp", ddkrun, "--carrier", "seccomp", "true")
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Run(), &exit)
	assert.Equal(t, 125, exit.ExitCode())
	assert.Contains(t, out.String(), "the process has a seccomp listener already")
}

// TestNoExec runs ddkrun where the first directory for the preloaded library has no files that can be executed.
func TestNoExec(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("a mount takes root")
	}
	r := newRig(t)
	dir := t.TempDir()
	r.before = []string{"unshare", "-m", "sh", "-c", `mount -t tmpfs -o noexec none "$0" && exec "$@"`, dir}
	r.env = append(r.env, "XDG_CACHE_HOME="+dir)
	out := r.run("--explain", "true")
	assert.Contains(t, out, "carrier:  preload (")
	assert.NotContains(t, out, "carrier:  preload ("+dir)
	assert.Contains(t, r.run("cat", "/sys/class/infiniband/rxe_ddk0/node_type"), "1: CA")
}
