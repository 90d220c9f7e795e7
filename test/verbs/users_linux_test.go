package verbs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Two users without privileges.
const daemonUser, programUser = 65533, 65534

// newRigOfUsers returns a rig whose daemon and programs are of users. It permits everyone to register memory.
func newRigOfUsers(t *testing.T, daemon, program int, flags ...string) *rig {
	if os.Getuid() != 0 {
		t.Skip("processes of several users take root")
	}
	if skip != "" {
		t.Skip(skip)
	}
	require.NoError(t, os.Chmod(os.Getenv("XDG_CACHE_HOME"), 0o777)) // each user may be the first
	cache := filepath.Join(os.Getenv("XDG_CACHE_HOME"), "ddkrun")
	if err := os.Mkdir(cache, 0o777); err == nil {
		require.NoError(t, os.Chmod(cache, 0o777)) // whatever the umask
	}
	dir, err := os.MkdirTemp("", "users") // t.TempDir can be too long for a socket
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(dir)) })
	allow(t, dir)
	allow(t, ddkrun)
	sockets, runtime := filepath.Join(dir, "sockets"), filepath.Join(dir, "runtime")
	require.NoError(t, os.Mkdir(sockets, 0o755))
	require.NoError(t, os.Chown(sockets, daemon, daemon))
	require.NoError(t, os.Mkdir(runtime, 0o700))
	require.NoError(t, os.Chown(runtime, program, program))
	r := &rig{t: t, socket: filepath.Join(sockets, "s"), as: credential(program)}
	r.env = append(os.Environ(), "DDKD_SOCKET="+r.socket, "XDG_RUNTIME_DIR="+runtime)
	r.serve("link=network,address=10.0.0.1", credential(daemon), append([]string{"--mode", "0666", "--copy-memory",
		"all", "--copy-timeout", "2m"}, flags...)...) // the machine may be busy
	return r
}

// allow lets all users reach a file or directory of the test, by its temporary directories.
func allow(t *testing.T, path string) {
	for at := path; strings.HasPrefix(at, os.TempDir()+"/"); at = filepath.Dir(at) {
		require.NoError(t, os.Chmod(at, 0o755))
	}
	for at := path; at != "/"; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		require.NoError(t, err)
		if info.Mode()&1 == 0 {
			t.Skipf("other users have no access to %s, the directory of the test's program", at)
		}
	}
}

// credential returns the attributes of a process of a user.
func credential(uid int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
}

// TestOtherUsers runs programs whose memory the system does not let the daemon reach, because the daemon runs as
// another user.
func TestOtherUsers(t *testing.T) {
	for _, x := range []struct {
		args, want string
		carrier    string
	}{
		{"ibv_rc_pingpong -g 0 -n 100 -c", "100 iters in", "preload"},
		{"ibv_ud_pingpong -g 0 -n 100 -e", "100 iters in", "preload"},
		{"ib_write_bw -F -n 64 -s 300000", "#bytes", "preload"},
		{"ib_read_lat -F -n 64", "#bytes", "preload"},
		{"ib_atomic_bw -F -n 64", "#bytes", "preload"},
		{"ib_send_bw -F -n 64 --share-memory", "#bytes", "preload"},
		{"ibv_rc_pingpong -g 0 -n 100 -c", "100 iters in", "seccomp"},
		{"ib_write_bw -F -n 64 -s 300000", "#bytes", "seccomp"},
	} {
		for name, user := range map[string]int{"root": 0, "another user": programUser} {
			t.Run(strings.Join([]string{x.args, x.carrier, name}, " "), func(t *testing.T) {
				if _, err := exec.LookPath(strings.Fields(x.args)[0]); err != nil {
					t.Skipf("%s is not installed (Debian: ibverbs-utils, perftest)", strings.Fields(x.args)[0])
				}
				r := newRigOfUsers(t, daemonUser, user)
				args, isShared := strings.CutSuffix(x.args, " --share-memory")
				r.flags = []string{"--carrier", x.carrier}
				if isShared {
					r.flags = append(r.flags, "--share-memory")
				} else {
					r.flags = append(r.flags, shareNever)
				}
				assert.Contains(t, r.pair(strings.Fields(args)...), x.want)
			})
		}
	}
}

// TestExplainMemory checks what ddkrun --explain says about memory.
func TestExplainMemory(t *testing.T) {
	for _, x := range []struct {
		program int
		whose   string
		share   string
		want    string
	}{
		{programUser, "all", "auto", "memory:   the program copies from and to memory that is not shared for the " +
			"daemon"},
		{daemonUser, "own", "never", "memory:   the daemon copies from and to memory (copy-memory own)"},
		{programUser, "own", "auto", "memory:   only memory that is shared: the daemon runs as user 65533, and this " +
			"is user 65534 (start ddkd with --copy-memory all, or as this user) (copy-memory own)"},
		{daemonUser, "none", "auto", "memory:   only memory that is shared"},
		{daemonUser, "none", "never", "memory:   none, unless it is shared (--share-memory, carrier preload)"},
	} {
		r := newRigOfUsers(t, daemonUser, x.program, "--copy-memory", x.whose)
		assert.Contains(t, r.run("--share-memory="+x.share, "--explain"), x.want)
	}
}

// TestCopies runs a program that checks the memory that is copied for the daemon, of another user and of one that
// protects its memory.
func TestCopies(t *testing.T) {
	for name, x := range map[string]struct {
		daemon, program int
		arg             string
	}{
		"another user":                {daemonUser, programUser, ""},
		"root":                        {daemonUser, 0, ""},
		"a program that is protected": {programUser, programUser, "protected"},
	} {
		t.Run(name, func(t *testing.T) {
			program := compile(t, "copies.c", "-pthread", "-l:libibverbs.so.1")
			r := newRigOfUsers(t, x.daemon, x.program)
			r.flags = []string{shareNever}
			allow(t, program)
			assert.Equal(t, "success\n", r.run(program, x.arg))
		})
	}
}

// TestUnreadable runs a program that its user may execute and not read. The carrier seccomp, which could not read its
// memory either, is refused, since the program would find the machine's devices.
func TestUnreadable(t *testing.T) {
	r := newRigOfUsers(t, programUser, programUser)
	path, err := exec.LookPath("ibv_devices")
	require.NoError(t, err)
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	program := filepath.Join(t.TempDir(), "program")
	require.NoError(t, os.WriteFile(program, b, 0o111))
	allow(t, filepath.Dir(program))
	assert.Contains(t, r.run(program), "rxe_ddk0")
	cmd, out := r.command("--carrier", "seccomp", program)
	require.Error(t, cmd.Run())
	assert.Contains(t, out.String(), program+" cannot be read by this user")
}
