package verbs

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/cmd/ddkrun/cli"
	"ciddk/kproxy"
)

// patience is the time after which a program that does not end fails the test. Machines that run tests can be busy.
const patience = 4 * time.Minute

// roleEnv is an environment variable that makes the test's program ddkrun.
const roleEnv = "CIDDK_TEST_DDKRUN"

// ddkrun is the path of ddkrun, which is this program, skip what this machine lacks, and cache the user's directory for
// what is kept.
var ddkrun, skip, cache string

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == rawArg {
		os.Exit(rawMain(os.Args[2:]))
	}
	if os.Getenv(roleEnv) != "" {
		os.Exit(cli.Main(os.Args[1:]))
	}
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "verbs-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		cache, _ = os.UserCacheDir()     // "" without HOME
		os.Setenv("XDG_CACHE_HOME", dir) // the preloaded library is kept for all tests
		os.Setenv(roleEnv, "1")
		if ddkrun, err = os.Executable(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		skip = missing()
		code := m.Run()
		if err := goleak.Find(); code == 0 && err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return code
	}())
}

// missing returns what this machine lacks for all tests.
func missing() string {
	if found, _ := filepath.Glob("/usr/lib/*/libibverbs/librxe-rdmav*.so"); len(found) == 0 { // the pattern is valid
		return "the user library of Linux Soft-RoCE is not installed (Debian: ibverbs-providers)"
	}
	return ""
}

// rig is a daemon with one adapter, and an environment for ddkrun.
type rig struct {
	t       *testing.T
	env     []string
	socket  string
	root    string               // where the programs are; "": /
	program string               // ddkrun; "": this one
	before  []string             // the program that becomes ddkrun, with its arguments; nil: none
	flags   []string             // of ddkrun
	as      *syscall.SysProcAttr // of ddkrun; nil: the test's user
	peer    *rig                 // of clients; nil: the same
}

func newRig(t *testing.T) *rig { return newRigAt(t, "10.0.0.1") }

// newRigAt returns a rig whose adapter has an address.
func newRigAt(t *testing.T, address string) *rig { return newRigOf(t, "link=network,address="+address) }

// newPair returns a rig of servers at an address, and its peer of clients: two daemons whose adapters send RoCEv2 over
// UDP. more are settings of both adapters.
func newPair(t *testing.T, more ...string) (r *rig, address string) {
	const digits = 1<<8 - 1
	pid := os.Getpid() // tests of other processes have other addresses
	base := fmt.Sprintf("127.%d.%d.", 1+pid>>8%digits, pid&digits)
	settings := strings.Join(append(more, "address="), ",") + base
	r = newRigOf(t, settings+"1")
	r.peer = newRigOf(t, settings+"2")
	return r, base + "1"
}

// client returns the rig of clients.
func (r *rig) client() *rig {
	if r.peer != nil {
		return r.peer
	}
	return r
}

// newRigOf returns a rig whose adapter has settings.
func newRigOf(t *testing.T, settings string) *rig {
	if skip != "" {
		t.Skip(skip)
	}
	return newRigWithout(t, settings)
}

// newRigWithout is newRigOf for programs that need neither the preloaded library nor a user library.
func newRigWithout(t *testing.T, settings string, flags ...string) *rig {
	dir := t.TempDir()
	r := &rig{t: t, socket: filepath.Join(dir, "s")}
	r.env = append(os.Environ(), "DDKD_SOCKET="+r.socket, "XDG_RUNTIME_DIR="+dir)
	r.serve(settings, nil, flags...)
	return r
}

// serve starts the daemon, which ends with the test.
func (r *rig) serve(settings string, as *syscall.SysProcAttr, flags ...string) {
	t := r.t
	daemon := exec.Command(self(as), append([]string{"-daemon", "serve", "--socket", r.socket, "--drain", "1ms",
		"--adapter", settings}, flags...)...)
	daemon.SysProcAttr = as
	pipe, err := daemon.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, daemon.Start())
	lines := bufio.NewReader(pipe)
	log := ""
	for !strings.Contains(log, "msg=ready") {
		line, err := lines.ReadString('\n')
		log += line
		require.NoError(t, err, "the daemon ended: %s", log)
	}
	rest := make(chan string, 1)
	go func() {
		b, _ := io.ReadAll(lines) // until the daemon ends
		rest <- string(b)
	}()
	t.Cleanup(func() {
		require.NoError(t, daemon.Process.Signal(os.Interrupt))
		log += <-rest
		assert.NoError(t, daemon.Wait(), "%s", log)
		assert.NotContains(t, log, "level=ERROR")
	})
}

// self returns the path of this program for a process of a user, who may not have access to its directory.
func self(as *syscall.SysProcAttr) string {
	if as != nil {
		return "/proc/self/exe"
	}
	return ddkrun
}

// command returns the command that runs a program with ddkrun.
func (r *rig) command(args ...string) (*exec.Cmd, *bytes.Buffer) {
	if !isInstalled(r.root, args[0]) {
		r.t.Skipf("%s is not installed (Debian: ibverbs-utils, infiniband-diags, opensm, perftest, rdmacm-utils)",
			args[0])
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	r.t.Cleanup(cancel)
	line := slices.Concat(r.before, []string{cmp.Or(r.program, self(r.as))}, r.flags, args)
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	out := new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env, cmd.SysProcAttr = r.env, r.as
	cmd.WaitDelay = 10 * time.Second
	return cmd, out
}

// isInstalled reports whether a root directory has a program, unless it is a flag.
func isInstalled(root, program string) bool {
	if root == "" || filepath.IsAbs(program) { // a program of the test, in a directory that the root shows
		_, err := exec.LookPath(program)
		return err == nil || program[0] == '-'
	}
	found, _ := filepath.Glob(filepath.Join(root, "usr", "*bin", program)) // the pattern is valid
	return len(found) > 0 || program[0] == '-'
}

// status returns the status of the daemon, or an empty one if the daemon does not answer.
func (r *rig) status() (s kproxy.Status) {
	out, err := exec.Command(ddkrun, "-daemon", "status", "--json", "--socket", r.socket).Output()
	if err != nil || json.Unmarshal(out, &s) != nil {
		return kproxy.Status{}
	}
	return s
}

// isServed reports whether a program listens for connections.
func (r *rig) isServed() bool { return r.has("listener: ") }

// has reports whether a program has a listener or a connection whose description in the status begins with a text.
func (r *rig) has(prefix string) bool {
	return slices.ContainsFunc(r.status().Clients, func(c kproxy.ClientStatus) bool {
		return slices.ContainsFunc(c.Services, func(text string) bool { return strings.HasPrefix(text, prefix) })
	})
}

// run runs a program to its end and returns its output.
func (r *rig) run(args ...string) string {
	cmd, out := r.command(args...)
	require.NoError(r.t, cmd.Run(), "%v:\n%s", args, out)
	return out.String()
}

// pair runs a program as a server and as a client, and returns the client's output. Both get the port of the server as
// the argument -p.
func (r *rig) pair(args ...string) string {
	port := freePort(r.t)
	args = append(args[:1:1], append([]string{"-p", strconv.Itoa(port)}, args[1:]...)...)
	server, serverOut := r.command(args...)
	require.NoError(r.t, server.Start())
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	awaitListener(r.t, port, ended, waiting{r, server.Process.Pid, serverOut})
	client, clientOut := r.client().command(append(args, "127.0.0.1")...)
	err := client.Run()
	if err != nil {
		_ = server.Process.Kill()
	}
	serverErr := <-ended
	require.NoError(r.t, err, "client %v:\n%s\nserver:\n%s", args, clientOut, serverOut)
	require.NoError(r.t, serverErr, "server %v:\n%s", args, serverOut)
	return clientOut.String()
}

// freePort returns a TCP port that is not in use.
func freePort(t *testing.T) int {
	l, err := net.Listen("tcp", ":0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// waiting is a program that is waited for. It is formatted when the wait was in vain.
type waiting struct {
	rig *rig
	pid int
	out *bytes.Buffer // which the program may write to, so that only its end is a safe time to read it
}

// String returns what the threads of the program wait for, its descriptors, and the daemon's view of its processes.
func (w waiting) String() string {
	var b strings.Builder
	dir := fmt.Sprintf("/proc/%d/", w.pid)
	for _, pattern := range []string{"task/*/comm", "task/*/wchan", "task/*/syscall"} {
		files, _ := filepath.Glob(dir + pattern) // the pattern is valid
		for _, name := range files {
			text, err := os.ReadFile(name)
			fmt.Fprintln(&b, name, strings.TrimSpace(string(text)), err)
		}
	}
	links, _ := filepath.Glob(dir + "fd/*")
	for _, name := range links {
		to, err := os.Readlink(name)
		fmt.Fprintln(&b, name, to, err)
	}
	fmt.Fprintf(&b, "the daemon: %+v", w.rig.status())
	return b.String()
}

// awaitListener waits until a process listens on a TCP port, without connecting to it.
func awaitListener(t *testing.T, port int, ended chan error, w waiting) {
	want := fmt.Sprintf(":%04X", port)
	require.Eventually(t, func() bool {
		select {
		case err := <-ended:
			ended <- err
			t.Logf("the server ended: %v", err)
			return true
		default:
		}
		return isListening(want)
	}, patience-10*time.Second, 5*time.Millisecond, "%s", w)
	if len(ended) > 0 {
		t.Fatalf("server: %s", w.out)
	}
}

// isListening reports whether a TCP socket of the thread's network namespace is in state LISTEN, whose local address
// ends with a port.
func isListening(port string) bool {
	const listen = "0A"
	for _, table := range []string{"tcp", "tcp6"} {
		b, _ := os.ReadFile("/proc/thread-self/net/" + table) // there is no tcp6 without IPv6
		for line := range strings.Lines(string(b)) {
			if f := strings.Fields(line); len(f) > 3 && strings.HasSuffix(f[1], port) && f[3] == listen {
				return true
			}
		}
	}
	return false
}
