package nvmet

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/internal/testenv"
	"ciddk/test/linux/guest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	nqn   = "nqn.2024-01.example:disk"
	host  = "nqn.2014-08.org.nvmexpress:uuid:8f1d7ac8-2f5c-4ca0-9d5a-0a1f4a9ef6a0"
	mount = "/tmp/disk"
	disk  = "/dev/nvme0n1"
)

// lab is a guest that is a host of NVMe, and a folder with our programs.
type lab struct {
	net    *guest.Network
	linux  *guest.Guest
	dir    string
	hasCLI bool // of nvme-cli
}

func (l *lab) addr() string { return l.net.Addr4(guest.Host).String() }

func (l *lab) program(name string) string { return filepath.Join(l.dir, name) }

// newLab boots the guest. It skips the test with the reason if there is none.
func newLab(t *testing.T, ctx context.Context) *lab {
	missing := guest.Available()
	for _, p := range []string{"mkfs.ext4", "fio", "setpriv"} {
		if _, err := exec.LookPath(p); err != nil && missing == nil {
			missing = fmt.Errorf("%w (apt-get install e2fsprogs fio util-linux)", err)
		}
	}
	testenv.Linux(t, missing)
	l := &lab{dir: t.TempDir()}
	for _, dir := range []string{l.dir, filepath.Dir(l.dir)} { // for the unprivileged user
		require.NoError(t, os.Chmod(dir, 0o777))
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", l.dir, "ciddk/examples/nvmet", "ciddk/cmd/ddkd")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	programs := []string{"busybox", "mkfs.ext4", "fio"}
	if _, err := exec.LookPath("nvme"); err == nil {
		l.hasCLI, programs = true, append(programs, "nvme")
	}
	l.net, err = guest.NewNetwork(ctx, guest.NetworkConfig{MTU: 9000})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, l.net.Close()) })
	l.linux, err = l.net.Boot(ctx, guest.Config{MemoryMB: 1024, Programs: programs,
		Modules: []string{"crc32c_generic", "ext4", "nvme_rdma"}})
	require.NoError(t, err)
	return l
}

// run runs a program of the guest, which must succeed.
func (l *lab) run(t *testing.T, ctx context.Context, args ...string) string {
	t.Helper()
	r, err := l.linux.Run(ctx, args...)
	require.NoError(t, err)
	require.Zero(t, r.Code, "%v: %s%s", args, r.Stdout, r.Stderr)
	return r.Stdout
}

// serve starts a target, and returns a function that kills it.
func (l *lab) serve(t *testing.T, ctx context.Context, command ...string) (kill func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	p, err := l.net.Start(ctx, command...)
	if err == nil {
		err = p.WaitOutput(ctx, "serving")
	}
	if err != nil {
		cancel()
		require.NoError(t, err)
	}
	return func() {
		cancel()
		_, err := p.Wait()
		assert.ErrorIs(t, err, context.Canceled)
		if t.Failed() {
			t.Log(p.Output())
		}
	}
}

// TestLinuxHost has Linux discover the subsystem, connect, make a file system, and write and verify a file. It then
// kills the target while another file is written, and starts one on the same disk: the host connects again, and the
// file is complete. The target has an adapter of its own, whose link is bad after the restart, or runs as an
// unprivileged user and has an adapter of the daemon.
func TestLinuxHost(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*testenv.Patience)
	defer cancel()
	l := newLab(t, ctx)
	// rxe retransmits without end, so only NVMe's timeouts find out that the target was killed. A busy machine may need
	// more of them than the kernel permits.
	for name, value := range map[string]string{"io_timeout": "10", "admin_timeout": "10", "max_retries": "50"} {
		require.NoError(t, l.linux.Put(ctx, "/sys/module/nvme_core/parameters/"+name, value))
	}
	require.NoError(t, l.linux.Mkdir(ctx, mount))
	target := []string{l.program("nvmet"), "--addr", l.addr(), "--file"}
	t.Run("own adapter", func(t *testing.T) {
		first := append(slices.Clone(target), filepath.Join(l.dir, "first"))
		l.exercise(t, ctx, first, append(first, "--drop", "0.01"))
	})
	t.Run("daemon", func(t *testing.T) {
		socket := filepath.Join(l.dir, "socket")
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		daemon, err := l.net.Start(ctx, "sh", "-c", "exec $0 serve --adapter address="+l.addr()+
			" --copy-memory all --mode 0666 --socket "+socket+" 2>&1", l.program("ddkd"))
		require.NoError(t, err)
		require.NoError(t, daemon.WaitOutput(ctx, "msg=ready"))
		second := append([]string{"setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"}, target...)
		second = append(second, filepath.Join(l.dir, "second"), "--daemon", socket)
		l.exercise(t, ctx, second, second)
		if t.Failed() {
			t.Log(daemon.Output())
		}
	})
	log, err := l.linux.Dmesg(ctx)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, strings.Count(log, "Successfully reconnected"), 2, log)
	assert.NotContains(t, log, "Bogus") // remote invalidation
}

// exercise runs the host with a target, and with another one after that was killed.
func (l *lab) exercise(t *testing.T, ctx context.Context, first, second []string) {
	start := time.Now()
	phase := func(what string) { t.Logf("%v: %s", time.Since(start).Round(time.Second), what) }
	kill := l.serve(t, ctx, first...)
	defer func() { kill() }()
	if l.hasCLI {
		out := l.run(t, ctx, "nvme", "discover", "-t", "rdma", "-a", l.addr(), "-s", "4420", "--hostnqn="+host)
		require.Regexp(t, `(?s)subnqn: *`+nqn+`.*traddr: *`+l.addr(), out)
		phase("discovered")
	}
	require.NoError(t, l.linux.Put(ctx, "/dev/nvme-fabrics", "transport=rdma,traddr="+l.addr()+",trsvcid=4420,nqn="+nqn+
		",hostnqn="+host+",reconnect_delay=1,keep_alive_tmo=15"))
	l.run(t, ctx, "busybox", "sh", "-c", "until [ -b "+disk+" ]; do busybox usleep 100000; done")
	phase("connected")
	require.Equal(t, fmt.Sprintln(64<<20/512), l.run(t, ctx, "agent", "cat", "/sys/block/nvme0n1/size"))
	l.run(t, ctx, "mkfs.ext4", "-q", disk)
	l.run(t, ctx, "busybox", "mount", "-t", "ext4", disk, mount)
	phase("a file system is made and mounted")
	l.run(t, ctx, fio("first")...)
	phase("a file is written and verified")

	writer, err := l.linux.Start(ctx, fio("second")...)
	require.NoError(t, err)
	l.run(t, ctx, "busybox", "sh", "-c", `written() { set -- $(busybox cat /sys/block/nvme0n1/stat); echo $7; }
		last=$(written); until [ $(written) -gt $((last + 1024)) ]; do busybox usleep 10000; done`)
	kill()
	kill = l.serve(t, ctx, second...)
	r, err := writer.Wait()
	require.NoError(t, err)
	require.Zero(t, r.Code, "%s%s", r.Stdout, r.Stderr)
	phase("a file is written and verified while the target is killed")
	l.run(t, ctx, "busybox", "umount", mount)
	require.NoError(t, l.linux.Put(ctx, "/sys/class/nvme/nvme0/delete_controller", "1"))
	l.run(t, ctx, "busybox", "sh", "-c", "while [ -e /sys/class/nvme/nvme0 ]; do busybox usleep 100000; done")
	phase("disconnected")
}

// fio returns a command that writes a file in any order and verifies it.
func fio(name string) []string {
	return []string{"fio", "--name=" + name, "--directory=" + mount, "--size=8M", "--rw=randwrite",
		"--bsrange=4k-256k", "--direct=1", "--verify=crc32c", "--verify_fatal=1", "--end_fsync=1"}
}
