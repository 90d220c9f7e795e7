package verbs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/seccomp"
	"ciddk/internal/testenv"
)

// compile compiles a program of testdata for libibverbs and returns its path. It skips the test if that is impossible.
func compile(t *testing.T, source string, flags ...string) string {
	if skip != "" {
		t.Skip(skip)
	}
	probe := exec.Command("cc", "-E", "-x", "c", "-o", os.DevNull, "-")
	probe.Stdin = strings.NewReader("#include <infiniband/verbs.h>\n")
	if probe.Run() != nil {
		t.Skip("no C compiler with infiniband/verbs.h (Debian: gcc, libibverbs-dev)")
	}
	program := filepath.Join(t.TempDir(), "program")
	args := append([]string{"-O1", "-Wall", "-o", program, filepath.Join("testdata", source)}, flags...)
	out, err := exec.Command("cc", args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}

// TestExtended compiles and runs a program that uses the extended interfaces of libibverbs: GID tables, extended CQs,
// the ibv_wr functions, memory windows, atomics, and asynchronous events. It does so with both carriers.
func TestExtended(t *testing.T) { runWithCarriers(t, "extended.c") }

// TestLookup runs the same program linked with no library: it loads libibverbs, and looks functions up
// there, with and without their versions, as NCCL and ctypes do.
func TestLookup(t *testing.T) {
	header := []string{"-include", filepath.Join("testdata", "lookup.h"), "-ldl"}
	t.Run("dlsym", func(t *testing.T) { runWithCarriers(t, "extended.c", header...) })
	t.Run("dlvsym", func(t *testing.T) { runWithCarriers(t, "extended.c", append(header, "-DBY_VERSION")...) })
}

// TestMulticastVerbs runs a program that attaches QPs to a group by libibverbs alone.
func TestMulticastVerbs(t *testing.T) {
	program := compile(t, "multicast.c", "-l:libibverbs.so.1")
	assert.Equal(t, "success\n", newRig(t).run(program))
}

// TestPosts runs a program that posts requests that are refused or flushed, with both carriers.
func TestPosts(t *testing.T) { runWithCarriers(t, "posts.c") }

// TestCapabilities runs a program that uses what the device reports, and tries what it does not, with both carriers.
func TestCapabilities(t *testing.T) { runWithCarriers(t, "capabilities.c") }

// TestLimits runs a program that uses the limits of an adapter with sockets, which has the fewest multicast groups. In
// a full run it creates all objects of a kind, and of every kind with CIDDK_WHOLE set.
func TestLimits(t *testing.T) {
	program := compile(t, "limits.c", "-l:libibverbs.so.1")
	assert.Equal(t, "success\n", newSocketRig(t).run(program))
	if !testenv.Full() {
		return
	}
	kinds := []string{"qp", "pd", "cq", "srq", "mr", "mw", "ah"}
	for _, kind := range testenv.Sample(t, kinds, len(kinds)) {
		assert.Regexp(t, "^"+kind+`: (\d+) of (\d+)\n$`, newRig(t).run(program, kind))
	}
}

// runWithCarriers compiles a program, with libibverbs or with other flags, and runs it with each carrier.
func runWithCarriers(t *testing.T, source string, flags ...string) {
	if flags == nil {
		flags = []string{"-l:libibverbs.so.1"}
	}
	program := compile(t, source, flags...)
	withCarriers(t, func(t *testing.T, flags []string) {
		r := newRig(t)
		r.flags = flags
		assert.Equal(t, "success\n", r.run(program))
		assert.Equal(t, "success\n", r.run("env", "-i", program), "without its environment")
	})
}

// withCarriers runs a test with the flags of each carrier.
func withCarriers(t *testing.T, test func(t *testing.T, flags []string)) {
	t.Run("preload", func(t *testing.T) { test(t, []string{"--carrier", "preload"}) })
	t.Run("seccomp", func(t *testing.T) {
		if err := seccomp.Check(); err != nil {
			t.Skip(err)
		}
		test(t, []string{"--carrier", "seccomp"})
	})
}

// TestStock runs the program of TestExtended without workarounds, so that it finds the faults of the user library.
func TestStock(t *testing.T) {
	program := compile(t, "extended.c", "-l:libibverbs.so.1")
	withCarriers(t, func(t *testing.T, flags []string) {
		r := newRig(t)
		r.flags = append(flags, "--no-workarounds")
		if !strings.Contains(r.run("--explain"), "until rdma-core 64") {
			t.Skip("the user library of this machine has no fault that the program looks for")
		}
		cmd, out := r.command(program)
		require.Error(t, cmd.Run(), "%s", out)
	})
}

// TestPlugin runs the same program as a plugin that has the libraries for itself, in a program with memory hooks.
func TestPlugin(t *testing.T) {
	plugin := compile(t, "extended.c", "-shared", "-fPIC", "-l:libibverbs.so.1")
	host := compile(t, "plugin.c", "-rdynamic", "-ldl")
	assert.Equal(t, "success\n", newRig(t).run(host, plugin))
}
