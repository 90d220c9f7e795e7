package opensm

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/fabric"
	"ciddk/fabric/ibsim"
	"ciddk/fabric/topology"
	"ciddk/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// library is what programs preload.
var libraries = []string{"/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so", "/usr/lib/umad2sim/libumad2sim.so",
	"/usr/lib64/umad2sim/libumad2sim.so", "/usr/lib/aarch64-linux-gnu/umad2sim/libumad2sim.so"}

// requireVariable is the environment variable of machines that have the programs.
const requireVariable = "CIDDK_REQUIRE_OPENSM"

// library returns the library that programs preload. It skips the test if it or one of the programs is missing.
func library(t testing.TB, programs ...string) string {
	t.Helper()
	missing := func(what string) {
		if os.Getenv(requireVariable) != "" {
			t.Fatalf("%s is missing (%s is set)", what, requireVariable)
		}
		t.Skipf("%s is missing: apt-get install opensm infiniband-diags libumad2sim0", what)
	}
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			missing(p)
		}
	}
	for _, l := range libraries {
		if _, err := os.Stat(l); err == nil {
			return l
		}
	}
	missing("libumad2sim.so")
	return ""
}

var rigs atomic.Int64

// A rig is a fabric with a server for programs.
type rig struct {
	t       testing.TB
	fabric  *fabric.Fabric
	topo    *topology.Topology
	name    string // of the server
	library string
	dir     string
}

// newRig serves a topology. It skips the test if OpenSM is missing.
func newRig(t testing.TB, g *topology.Topology, err error) *rig {
	t.Helper()
	require.NoError(t, err)
	r := &rig{t: t, topo: g, library: library(t, "opensm", "ibnetdiscover"), dir: t.TempDir()}
	r.fabric, err = fabric.New(g, fabric.Config{})
	require.NoError(t, err)
	t.Cleanup(r.fabric.Close)
	r.name = fmt.Sprintf("ciddk-%d-%d", os.Getpid(), rigs.Add(1))
	s, err := ibsim.Listen(r.fabric, ibsim.Config{Name: r.name})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return r
}

// command returns a program that is a client at a node.
func (r *rig) command(ctx context.Context, host, program string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, program, args...)
	dir, err := os.MkdirTemp(r.dir, filepath.Base(program))
	require.NoError(r.t, err)
	c.Dir = dir
	c.Env = append(os.Environ(), "LD_PRELOAD="+r.library, "SIM_HOST="+host, "IBSIM_SOCKNAME="+r.name,
		"OSM_TMP_DIR="+dir, "OSM_CACHE_DIR="+dir)
	c.WaitDelay = time.Second
	return c
}

// run runs a program to its end, and returns its output.
func (r *rig) run(host, program string, args ...string) string {
	r.t.Helper()
	out, err := r.try(host, program, args...)
	require.NoError(r.t, err, "%s %v: %s", program, args, out)
	return out
}

// try is run for a program that may fail. Output on standard error follows that on standard output.
func (r *rig) try(host, program string, args ...string) (string, error) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), testenv.Patience)
	defer cancel()
	c := r.command(ctx, host, program, args...)
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	err := c.Run()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, stderr.String())
	}
	return stdout.String(), err
}

// A manager is a running OpenSM.
type manager struct {
	rig  *rig
	cmd  *exec.Cmd
	log  string
	out  testenv.Output
	done chan struct{}
}

// flushLog is the value of OpenSM's option -d that makes it write each line of the log at once.
const flushLog = "2"

// manage starts OpenSM at a node.
func (r *rig) manage(host string, args ...string) *manager {
	r.t.Helper()
	m := &manager{rig: r, done: make(chan struct{})}
	m.log = filepath.Join(r.t.TempDir(), "opensm.log")
	m.cmd = r.command(context.WithoutCancel(r.t.Context()), host, "opensm",
		append([]string{"-f", m.log, "-d", flushLog},
			args...)...)
	m.cmd.Stdout, m.cmd.Stderr = &m.out, &m.out
	require.NoError(r.t, m.cmd.Start())
	go func() {
		defer close(m.done)
		_ = m.cmd.Wait() // a killed manager is no failure
	}()
	r.t.Cleanup(func() {
		m.kill()
		if r.t.Failed() {
			r.t.Logf("log of OpenSM at %s:\n%s", host, tail(m.text(), 60))
		}
	})
	return m
}

// text returns the log.
func (m *manager) text() string {
	b, err := os.ReadFile(m.log)
	if err != nil {
		return m.out.String()
	}
	return string(b)
}

// kill ends the manager without a farewell.
func (m *manager) kill() {
	_ = m.cmd.Process.Kill()
	<-m.done
}

// stop ends the manager in order.
func (m *manager) stop() {
	_ = m.cmd.Process.Signal(os.Interrupt)
	select {
	case <-m.done:
	case <-time.After(testenv.Patience):
		m.kill()
	}
}

// waitUp waits until the log has a number of sweeps that ended with the subnet up.
func (m *manager) waitUp(n int) {
	m.rig.t.Helper()
	m.rig.wait(fmt.Sprintf("%d times SUBNET UP", n), func() bool { return m.sweeps() >= n })
}

// sweeps returns the number of sweeps that ended with the subnet up.
func (m *manager) sweeps() int { return strings.Count(m.text(), "SUBNET UP") }

// wait polls a condition. What it waits for happens in other processes.
func (r *rig) wait(what string, cond func() bool) {
	r.t.Helper()
	require.Eventually(r.t, cond, testenv.Patience, 20*time.Millisecond, what)
}

// tail returns the last lines of a text.
func tail(s string, n int) string {
	lines := strings.Split(s, "\n")
	return strings.Join(lines[max(len(lines)-n, 0):], "\n")
}
