package cli

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/clock"
	"ciddk/internal/kproxy/devices"
	"ciddk/internal/seccomp"
	"ciddk/ual"
)

// asDDKRun is the environment variable with which the test's program is ddkrun.
const asDDKRun = "CIDDK_TEST_DDKRUN"

// TestMain makes the test's program ddkrun, and the processes that ddkrun starts.
func TestMain(m *testing.M) {
	if status, ok := mainOfProcess(os.Args[1:]); ok {
		os.Exit(status)
	}
	if status, ok := seccomp.Main(os.Args[1:]); ok {
		os.Exit(status)
	}
	if os.Getenv(asDDKRun) != "" {
		os.Exit(Main(os.Args[1:]))
	}
	m.Run()
}

// skipWithDaemon skips a test if a daemon of the machine runs, which ddkrun would use.
func skipWithDaemon(t *testing.T) {
	if _, err := os.Stat(ual.DefaultPath); err == nil {
		t.Skip("a daemon runs on this machine, at " + ual.DefaultPath)
	}
}

// useDirs sets the directories of ddkrun. It returns the runtime directory.
func useDirs(t *testing.T) string {
	base := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", base)
	t.Setenv("DDKD_SOCKET", "")
	dirs := temporaryDirs
	temporaryDirs = nil // what the user has there is neither used nor changed
	t.Cleanup(func() { temporaryDirs = dirs })
	return filepath.Join(base, "ddkrun")
}

const (
	noAdapter  = "address=203.0.113.77" // reserved for documentation (RFC 5737), so that no machine has it
	simulated  = "link=network,address=127.0.0.1"
	noSettings = "link=nonsense"
)

// TestStartDaemon checks that the daemon of the user gets the first adapter that can be created.
func TestStartDaemon(t *testing.T) {
	skipWithDaemon(t)
	for _, x := range []struct {
		name     string
		adapters []string
		failures []string // in the log, or in the error
		isError  bool
	}{
		{name: "the first works", adapters: []string{simulated, noSettings}},
		{name: "the second works", adapters: []string{noAdapter, simulated}, failures: []string{"203.0.113.77"}},
		{name: "none works", adapters: []string{noAdapter, noSettings},
			failures: []string{"203.0.113.77", "nonsense"}, isError: true},
	} {
		t.Run(x.name, func(t *testing.T) {
			dir := useDirs(t)
			before := defaultAdapters
			t.Cleanup(func() { defaultAdapters = before })
			defaultAdapters = x.adapters
			d, err := findDaemon("", time.Minute, 0)
			text, readErr := os.ReadFile(filepath.Join(dir, "log"))
			require.NoError(t, readErr)
			if x.isError {
				require.ErrorIs(t, err, errEnded)
				text = []byte(err.Error())
			} else {
				require.NoError(t, err)
				t.Cleanup(func() { endDaemon(t, dir) })
				assert.NotEmpty(t, d.tree)
			}
			for _, want := range x.failures {
				assert.Contains(t, string(text), want)
			}
			assert.Equal(t, len(x.failures), strings.Count(string(text), "ddkrun -daemon: "), "%s", text)
		})
	}
}

// endDaemon ends the daemon of the user.
func endDaemon(t *testing.T, dir string) {
	require.NoError(t, stopDaemon())
	_, err := reachOwn(dir)
	require.Error(t, err)
	require.NoError(t, stopDaemon(), "there is none any more")
}

// TestDetached checks that the daemon, which ddkrun has started, has none of its descriptors, is no child of the
// program, and ends with it.
func TestDetached(t *testing.T) {
	skipWithDaemon(t)
	for _, carrier := range []string{carrierPreload, carrierSeccomp} {
		t.Run(carrier, func(t *testing.T) {
			if carrier == carrierSeccomp && seccomp.Check() != nil {
				t.Skip(seccomp.Check())
			}
			dir := useDirs(t)
			t.Cleanup(func() { endDaemon(t, dir) })
			pipe, theirs, err := os.Pipe()
			require.NoError(t, err)
			defer pipe.Close()
			// The shell is the program, and executes cat, which prints the children of the process.
			cmd := exec.Command(os.Args[0], "--carrier", carrier, "/bin/sh", "-c",
				"ls /sys/class/infiniband; exec cat /proc/self/task/$$/children")
			cmd.Env = append(os.Environ(), asDDKRun+"=1", "CI=true", envIdle+"=")
			cmd.ExtraFiles = []*os.File{theirs}
			out, err := cmd.CombinedOutput() // returns when nobody has the pipe any more
			require.NoError(t, theirs.Close())
			require.NoError(t, err, "%s", out)
			assert.Equal(t, "rxe_ddk0\n", string(out), "no children")
			rest, err := io.ReadAll(pipe)
			require.NoError(t, err)
			assert.Empty(t, rest)
			require.Eventually(t, func() bool {
				_, err := os.Stat(filepath.Join(dir, socketName))
				return errors.Is(err, fs.ErrNotExist)
			}, time.Minute, startPoll, "the daemon ends when it has no program")
		})
	}
}

// TestRestart starts programs one after the other while daemons end.
func TestRestart(t *testing.T) {
	skipWithDaemon(t)
	dir := useDirs(t)
	t.Cleanup(func() { endDaemon(t, dir) })
	for range 5 {
		cmd := exec.Command(os.Args[0], "/bin/sh", "-c", "ls /sys/class/infiniband")
		cmd.Env = append(os.Environ(), asDDKRun+"=1", envIdle+"=0")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		assert.Equal(t, "rxe_ddk0\n", string(out))
		if d, err := reachOwn(dir); err == nil { // else it ended when the program before had found it
			require.NoError(t, syscall.Kill(d.pid, syscall.SIGTERM)) // the next one is started while it ends
		}
	}
}

// TestInit runs a program by ddkrun as the first process of a PID namespace.
func TestInit(t *testing.T) {
	skipWithDaemon(t)
	useDirs(t)
	for script, want := range map[string]int{"exit 3": 3, "kill -9 $$": 128 + 9, "(sleep 0.01 &) ; exit 0": 0,
		"echo $$ $PPID; test $PPID = 1": 0} {
		cmd := exec.Command(os.Args[0], "--carrier", carrierPreload, "/bin/sh", "-c", script)
		cmd.Env = append(os.Environ(), asDDKRun+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
		if os.Geteuid() != 0 {
			cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		}
		out, err := cmd.CombinedOutput()
		if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) {
			t.Skip("no PID namespace: ", err)
		}
		assert.Equal(t, want, cmd.ProcessState.ExitCode(), "%s: %s", script, out)
	}
}

// TestIdle checks after which time the daemon ends.
func TestIdle(t *testing.T) {
	for _, x := range []struct {
		ci, env string
		args    []string
		want    time.Duration
		err     string
	}{
		{want: 30 * time.Minute}, {ci: "true"}, {ci: "1"}, {ci: "woodpecker"}, {ci: "false", want: 30 * time.Minute},
		{ci: "true", env: "5m", want: 5 * time.Minute}, {env: "0"},
		{env: "0", args: []string{"--idle", "2s"}, want: 2 * time.Second},
		{env: "soon", err: envIdle + "=soon"}, {env: "-1s", err: envIdle},
		{args: []string{"--idle=-1s"}, err: "--idle"},
		{args: []string{"--wait=-1s"}, err: "--wait"}, {args: []string{"--wait-port=65536"}, err: "--wait-port"},
	} {
		t.Setenv("CI", x.ci)
		t.Setenv(envIdle, x.env)
		o, _, err := parse(append(x.args, "program"))
		if x.err != "" {
			require.ErrorContains(t, err, x.err)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, x.want, o.idle, "%+v", x)
	}
}

// TestWait waits for a daemon that is started later, and for ports.
func TestWait(t *testing.T) {
	useDirs(t)
	dir, err := os.MkdirTemp("", "ddkrun") // t.TempDir can be too long for a socket
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "s")
	_, err = findDaemon(socket, -1, 0)
	require.Error(t, err)
	found := make(chan *daemon)
	go func() {
		d, err := findDaemon(socket, -1, time.Minute)
		assert.NoError(t, err)
		found <- d
	}()
	server := exec.Command(os.Args[0], daemonArg, "serve", "--socket", socket, "--adapter", simulated)
	require.NoError(t, server.Start())
	d := <-found
	require.NotNil(t, d)
	assert.Contains(t, d.build, "ddkd ")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := uint(l.Addr().(*net.TCPAddr).Port)
	assert.NoError(t, awaitPort(d, port, 0))
	require.NoError(t, l.Close())
	assert.ErrorContains(t, awaitPort(d, port, 0), "no program listens on port")
	require.NoError(t, server.Process.Signal(os.Interrupt))
	require.NoError(t, server.Wait())
	rdma := []byte(`{"clients":[{"services":["listener: rdma-tcp 10.0.0.1:7174"]}]}`)
	assert.True(t, isListener(rdma, 7174))
	assert.False(t, isListener(rdma, 174))
}

// TestOtherVersion checks that a daemon with another version of the protocol is not used, and that the error names both
// programs.
func TestOtherVersion(t *testing.T) {
	skipWithDaemon(t)
	dir := useDirs(t)
	require.NoError(t, os.Mkdir(dir, 0o700))
	path := filepath.Join(dir, socketName+verbsSuffix)
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	require.NoError(t, err)
	s := devices.New(devices.FrontEnds{devices.Notes{{Path: devices.DaemonVersion,
		Data: []byte("5\nddkd v0.1.0\n")}}}, 8, clock.Real())
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	_, err = findDaemon("", time.Minute, 0)
	require.ErrorIs(t, err, errVersion)
	for _, want := range []string{"version 5 of the protocol (ddkd v0.1.0)", "(ddkrun ", "ddkrun --stop"} {
		assert.ErrorContains(t, err, want)
	}
	require.NoError(t, l.Close())
	require.NoError(t, <-served)
	s.Close()
}

// BenchmarkStart compares the time of a program by ddkrun, with a daemon that runs, with that of the program alone. The
// test's program is smaller than ddkrun.
func BenchmarkStart(b *testing.B) {
	b.Setenv("XDG_RUNTIME_DIR", b.TempDir())
	b.Setenv("XDG_CACHE_HOME", b.TempDir())
	b.Setenv("DDKD_SOCKET", "")
	b.Setenv(asDDKRun, "1")
	if _, err := findDaemon("", time.Minute, 0); err != nil {
		b.Skip(err)
	}
	defer func() { require.NoError(b, stopDaemon()) }()
	var alone, by time.Duration
	for b.Loop() {
		start := time.Now()
		require.NoError(b, exec.Command("true").Run())
		middle := time.Now()
		require.NoError(b, exec.Command(os.Args[0], "true").Run())
		alone, by = alone+middle.Sub(start), by+time.Since(middle)
	}
	b.ReportMetric(float64((by-alone).Microseconds())/float64(b.N), "more-µs/op")
	b.ReportMetric(float64(by)/float64(alone), "ratio")
}
