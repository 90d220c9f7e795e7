package kproxy

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ciddk/ci"
	"ciddk/clock"
)

// TestProcessMemory reaches memory of a process, which then unmaps it and exits. Every access fails afterwards and
// changes nothing.
func TestProcessMemory(t *testing.T) {
	for name, isBound := range map[string]bool{"by number": false, "bound": true} {
		t.Run(name, func(t *testing.T) { testProcessMemory(t, isBound) })
	}
}

func testProcessMemory(t *testing.T, isBound bool) {
	page := os.Getpagesize()
	b, err := unix.Mmap(-1, 0, 2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	require.NoError(t, err)
	addr := ci.Bytes(b).Addr()
	var locks atomicLocks
	p := ownProcess()
	p.locks = &locks
	p.reach.isBound = isBound
	m, err := p.Memory(addr, uint64(2*page), ci.LocalWrite)
	require.NoError(t, err)
	_, err = m.WriteAt([]byte("across"), int64(page-3))
	require.NoError(t, err)
	assert.Equal(t, "across", string(b[page-3:page+3]))
	_, err = m.ReadAt(make([]byte, 2), int64(2*page-1))
	require.ErrorIs(t, err, ci.InvalidParameter, "beyond the end")

	atomics := m.(ci.AtomicMemory)
	for _, want := range []uint64{0, 5} {
		old, err := atomics.FetchAdd(8, 5)
		require.NoError(t, err)
		assert.Equal(t, want, old)
	}
	old, err := atomics.CompareSwap(8, 10, 77)
	require.NoError(t, err)
	assert.EqualValues(t, 10, old)
	old, err = atomics.CompareSwap(8, 10, 78)
	require.NoError(t, err)
	assert.EqualValues(t, 77, old, "not swapped")

	require.NoError(t, unix.Mprotect(b[page:], unix.PROT_READ))
	_, err = p.Memory(addr, uint64(2*page), ci.LocalWrite)
	require.ErrorIs(t, err, ci.InvalidPermission)
	_, err = p.Memory(addr, uint64(2*page), 0)
	require.NoError(t, err)
	require.NoError(t, unix.Munmap(b))
	_, err = m.ReadAt(make([]byte, 8), 0)
	require.Error(t, err)
	_, err = m.WriteAt(make([]byte, 8), 0)
	require.Error(t, err)
	_, err = atomics.FetchAdd(8, 5)
	require.Error(t, err)

	own := make([]byte, 8)
	m, err = p.Memory(ci.Bytes(own).Addr(), 8, ci.LocalWrite)
	require.NoError(t, err)
	p.close()
	_, err = m.WriteAt([]byte{1}, 0)
	require.ErrorIs(t, err, ci.InvalidState)
	assert.Zero(t, own[0])
	_, err = p.Memory(ci.Bytes(own).Addr(), 8, 0)
	require.ErrorIs(t, err, ci.InvalidState)

	stranger := newProcess(Peer{}, 64, &locks, clock.Real())
	defer stranger.close()
	stranger.reach.isBound = isBound
	_, err = stranger.Memory(4096, 8, 0)
	require.ErrorIs(t, err, ci.InvalidPermission)
}

// TestProcessOfOtherUser reaches processes whose number is that of the client, but whose memory is not the client's.
func TestProcessOfOtherUser(t *testing.T) {
	if !mayTraceAll() || os.Getuid() != 0 {
		t.Skip("only a daemon with CAP_SYS_PTRACE can reach processes of other users; run as root")
	}
	const user, other = 65534, 65533
	sleep, err := exec.LookPath("sleep")
	require.NoError(t, err)
	guarded := unreadableSleep(t)
	for name, c := range map[string]struct {
		args []string
		uid  int
		want string
	}{
		"the client":       {[]string{sleep, "1000"}, user, ""},
		"another user":     {[]string{sleep, "1000"}, other, "does not belong"},
		"protected memory": {[]string{guarded, "1000"}, user, "does not belong"},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := start(t, user, c.args...)
			proc := newProcess(Peer{PID: p, UID: c.uid}, 64, new(atomicLocks), clock.Real())
			defer proc.close()
			_, err := proc.Memory(writable(t, p), 8, ci.LocalWrite)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, ci.InvalidPermission)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// TestNumberOfOtherUser reaches a process by a number that another user's client had. The daemon could copy its memory,
// and does not.
func TestNumberOfOtherUser(t *testing.T) {
	own := make([]byte, 8)
	for _, x := range []struct {
		uid int
		ok  bool
	}{{os.Getuid(), true}, {os.Getuid() + 1, false}} {
		p := newProcess(Peer{PID: os.Getpid(), UID: x.uid}, 64, new(atomicLocks), clock.Real())
		p.reach.isBound = false
		_, err := p.Memory(ci.Bytes(own).Addr(), 8, ci.LocalWrite)
		if x.ok {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, errOtherUser)
			require.ErrorIs(t, err, ci.InvalidPermission)
		}
		p.close()
	}
}

// TestProcessExecutes reaches the memory of a process that then executes another program. No access succeeds
// afterwards.
func TestProcessExecutes(t *testing.T) {
	if !mayTraceAll() {
		t.Skip("without CAP_SYS_PTRACE the kernel checks each access; run as root")
	}
	pid, stdin := start(t, os.Getuid(), "sh", "-c", "read line; exec sleep 1000")
	proc := newProcess(Peer{PID: pid, UID: os.Getuid()}, 64, new(atomicLocks), clock.Real())
	defer proc.close()
	m, err := proc.Memory(writable(t, pid), 8, ci.LocalWrite)
	require.NoError(t, err)
	_, err = stdin.Write([]byte("\n"))
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		name, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
		return err == nil && string(name) == "sleep\n"
	}, time.Minute, time.Millisecond)
	_, err = m.ReadAt(make([]byte, 8), 0)
	require.Error(t, err)
	_, err = m.WriteAt(make([]byte, 8), 0)
	require.Error(t, err)
	_, err = proc.Memory(writable(t, pid), 8, ci.LocalWrite)
	require.ErrorIs(t, err, ci.InvalidPermission)
}

// start starts a program as a user, waits until it has been executed, and ends it with the test.
func start(t *testing.T, uid int, args ...string) (pid int, stdin io.WriteCloser) {
	c := exec.Command(args[0], args[1:]...)
	if uid != os.Getuid() {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	stdin, err := c.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start()) // it returns after the execution
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait() // killed
	})
	return c.Process.Pid, stdin
}

// writable returns the address of 8 bytes that a process can write to: of its stack. The loader of a program changes
// the rights of other memory.
func writable(t *testing.T, pid int) (addr uint64) {
	require.Eventually(t, func() bool {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/maps")
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			from, _, rights, err := parseMapping(line)
			require.NoError(t, err)
			if strings.HasPrefix(rights, "rw") && strings.HasSuffix(line, "[stack]\n") {
				addr = from
				return true
			}
		}
		return false
	}, time.Minute, time.Millisecond)
	return addr
}

// protectedVar makes TestProtectedMemoryChild run: the path of a program whose memory its user may not reach.
const protectedVar = "KPROXY_TEST_PROTECTED"

// TestProtectedMemoryChild is a daemon without privileges. It registers memory of a process of its own user that the
// system does not let it reach.
func TestProtectedMemoryChild(t *testing.T) {
	program := os.Getenv(protectedVar)
	if program == "" {
		t.Skip("only as a child of another test")
	}
	c := exec.Command(program, "1000")
	require.NoError(t, c.Start())
	defer func() {
		_ = c.Process.Kill()
		_ = c.Wait() // killed
	}()
	p := newProcess(Peer{PID: c.Process.Pid, UID: os.Getuid()}, 64, new(atomicLocks), clock.Real())
	defer p.close()
	_, err := p.Memory(4096, 8, ci.LocalWrite)
	require.ErrorIs(t, err, ci.InvalidPermission)
	for _, text := range []string{"does not let the daemon", "kernel.yama.ptrace_scope", "ual.NewMemory"} {
		require.ErrorContains(t, err, text)
	}
}

// TestProtectedMemory checks the error of a registration where the system forbids cross-memory copies: it names the
// cause and what to do.
func TestProtectedMemory(t *testing.T) {
	for _, errno := range []error{unix.EPERM, &os.PathError{Op: "open", Path: "/proc/1/maps", Err: unix.EACCES}} {
		err := explainCopy(errno)
		require.ErrorIs(t, err, errno)
		require.ErrorContains(t, err, "memory of ual.NewMemory is shared and needs no such right")
	}
	require.Equal(t, io.EOF, explainCopy(io.EOF))
	if os.Getuid() != 0 {
		t.Skip("starting a process of another user takes root")
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestProtectedMemoryChild$", "-test.v")
	cmd.Env = append(os.Environ(), protectedVar+"="+unreadableSleep(t))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: TestProtectedMemoryChild")
}

// unreadableSleep returns the path of a sleep that its user may not read. It runs with protected memory, as a setuid
// program does.
func unreadableSleep(t *testing.T) string {
	sleep, err := exec.LookPath("sleep")
	require.NoError(t, err)
	text, err := os.ReadFile(sleep)
	require.NoError(t, err)
	guarded := filepath.Join(t.TempDir(), "sleep")
	require.NoError(t, os.WriteFile(guarded, text, 0o711))
	for folder := filepath.Dir(guarded); folder != os.TempDir() && folder != "/"; folder = filepath.Dir(folder) {
		require.NoError(t, os.Chmod(folder, 0o711))
	}
	return guarded
}
