package verbs

import (
	"debug/elf"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/testenv"
)

// exported returns the functions of the library that ddkrun preloads.
func exported(t *testing.T, r *rig) (functions []string) {
	path, _, _ := strings.Cut(strings.TrimSpace(r.run("sh", "-c", "echo $LD_PRELOAD")), ":")
	f, err := elf.Open(path)
	require.NoError(t, err)
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	require.NoError(t, err)
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF {
			functions = append(functions, s.Name)
		}
	}
	require.Greater(t, len(functions), 100)
	return functions
}

// companion compiles a library for LD_PRELOAD from testdata/company.
func companion(t *testing.T, source string, flags ...string) string {
	library := filepath.Join(t.TempDir(), strings.TrimSuffix(source, ".c")+".so")
	args := append([]string{"-O1", "-Wall", "-fno-builtin", "-fPIC", "-shared", "-o", library,
		filepath.Join("testdata", "company", source)}, flags...)
	out, err := exec.Command("cc", append(args, "-ldl")...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return library
}

// beside runs a program with another library in LD_PRELOAD, before or after that of ddkrun.
func (r *rig) beside(library string, isFirst bool, args ...string) string {
	env := "LD_PRELOAD=" + library
	if isFirst {
		return r.run(append([]string{"sh", "-c", env + `:$LD_PRELOAD exec "$@"`, "sh"}, args...)...)
	}
	return r.run(append([]string{"env", env}, args...)...)
}

// TestCompany runs programs with libraries that wrap all functions of the one that ddkrun preloads, that wrap some by
// others, or that replace some in place, loaded before it or after it. The programs find paths and devices, share
// memory, start processes, and transfer data.
func TestCompany(t *testing.T) {
	testenv.Long(t)
	if runtime.GOARCH != "amd64" {
		t.Skip("the libraries are for amd64")
	}
	r := newRig(t)
	programs := map[string][]string{"extended.c": nil, "share.c": {"auto"}, "forks.c": {"auto"}, "company/calls.c": nil}
	for source := range programs {
		programs[source] = append([]string{compile(t, source, "-pthread", "-l:libibverbs.so.1")}, programs[source]...)
	}
	list := "-DFUNCTIONS(X)=X(" + strings.Join(exported(t, r), ")X(") + ")"
	libraries := map[string]string{"wrapper.c": companion(t, "wrapper.c", list), "crossing.c": companion(t,
		"crossing.c"), "hooks.c": companion(t, "hooks.c"), "linker.c": companion(t, "linker.c")}
	type company struct {
		library, source string
		isFirst         bool
	}
	all := []company{{"linker.c", "extended.c", true}, {"linker.c", "forks.c", true}}
	for _, isFirst := range []bool{true, false} {
		all = append(all, company{"wrapper.c", "company/calls.c", isFirst})
		for _, source := range []string{"extended.c", "share.c", "forks.c"} {
			for _, library := range []string{"wrapper.c", "crossing.c", "hooks.c"} {
				all = append(all, company{library, source, isFirst})
			}
		}
	}
	for _, c := range all {
		order := "last"
		if c.isFirst {
			order = "first"
		}
		t.Run(c.library+" "+order+" "+c.source, func(t *testing.T) {
			of := *r
			of.t = t
			assert.Equal(t, "success\n", of.beside(libraries[c.library], c.isFirst, programs[c.source]...))
		})
	}
}

// TestCompanyPrograms runs programs with such libraries or under others: UCX's hooks of memory, fakeroot, allocators,
// valgrind, debuggers, a library for LD_AUDIT.
func TestCompanyPrograms(t *testing.T) {
	testenv.Long(t)
	r := newRig(t)
	for _, x := range []struct {
		args []string
		want string
	}{
		{[]string{"ucx_info", "-v"}, "# Version"},
		{[]string{"ucx_info", "-d"}, "Transport: rc_verbs"},
		{[]string{"fakeroot", "--", "sh", "-c", "touch x && chown 1:1 x && stat -c %u:%g x; rm x; ibv_devices"},
			"rxe_ddk0"},
		{[]string{"valgrind", "-q", "--error-exitcode=1", "ibv_devinfo"}, "PORT_ACTIVE"},
		{[]string{"gdb", "-batch", "-ex", "run", "ibv_devinfo"}, "PORT_ACTIVE"},
		{[]string{"strace", "-f", "-o", "/dev/null", "ibv_devinfo"}, "PORT_ACTIVE"},
	} {
		t.Run(strings.Join(x.args[:2], " "), func(t *testing.T) {
			if _, err := exec.LookPath(x.args[0]); err != nil {
				t.Skip(err)
			}
			assert.Contains(t, r.run(x.args...), x.want)
		})
	}
	for _, name := range []string{"libjemalloc.so.2", "libtcmalloc_minimal.so.4"} {
		t.Run(name, func(t *testing.T) {
			found, _ := filepath.Glob("/usr/lib/*/" + name) // the pattern is valid
			if len(found) == 0 {
				t.Skipf("no %s (Debian: libjemalloc2, libtcmalloc-minimal4)", name)
			}
			for _, isFirst := range []bool{true, false} {
				assert.Contains(t, r.beside(found[0], isFirst, "ibv_devinfo"), "PORT_ACTIVE")
			}
		})
	}
	t.Run("audit", func(t *testing.T) {
		if _, err := exec.LookPath("cc"); err != nil {
			t.Skip(err)
		}
		r := newRig(t)
		r.flags = []string{"env", "LD_AUDIT=" + companion(t, "audit.c")}
		assert.Contains(t, r.pair("ibv_rc_pingpong", "-g", "0", "-n", "20", "-c"), "20 iters in")
	})
	t.Run("valgrind", func(t *testing.T) {
		if _, err := exec.LookPath("valgrind"); err != nil {
			t.Skip(err)
		}
		r := newRig(t)
		for _, choice := range []string{"auto", "never"} {
			r.flags = []string{"--share-memory=" + choice, "valgrind", "-q", "--error-exitcode=1"}
			assert.Contains(t, r.pair("ibv_rc_pingpong", "-g", "0", "-n", "20", "-c"), "20 iters in")
		}
	})
}

// TestSignals runs a program whose threads wait for events while signals arrive, with both carriers.
func TestSignals(t *testing.T) {
	program := compile(t, "signals.c", "-pthread", "-l:libibverbs.so.1", "-l:librdmacm.so.1")
	assert.Equal(t, "success\n", newRig(t).run(program, "10.0.0.1"))
	assert.Equal(t, "success\n", newSeccompRig(t).run("--carrier", "seccomp", program, "10.0.0.1"))
}

// TestBells runs a program with QPs whose handles differ by the number of doorbells.
func TestBells(t *testing.T) {
	testenv.Long(t)
	program := compile(t, "bells.c", "-pthread", "-l:libibverbs.so.1")
	assert.Equal(t, "success\n", newRig(t).run(program, "descriptors"))
	assert.Equal(t, "success\n", newSeccompRig(t).run("--carrier", "seccomp", program, "table"))
}

// TestResident registers memory of many kinds, with each choice of --share-memory and with both carriers.
func TestResident(t *testing.T) {
	program := compile(t, "resident.c", "-pthread", "-l:libibverbs.so.1")
	r := newSeccompRig(t)
	for _, flags := range [][]string{{"--share-memory=auto"}, {"--share-memory"}, {shareNever}, {"--carrier",
		"seccomp"}} {
		r.flags = flags
		assert.Equal(t, "success\n", r.run(program), "%v", flags)
	}
}

// TestFault runs programs that SIGSEGV ends. They end as without ddkrun, and the carrier is printed.
func TestFault(t *testing.T) {
	program := compile(t, "fault.c")
	r := newSeccompRig(t)
	for _, carrier := range []string{"preload", "seccomp"} {
		for _, way := range []string{"access", "sent", "own access", "own sent"} {
			cmd, out := r.command("--carrier", carrier, program, way)
			var exit *exec.ExitError
			require.ErrorAs(t, cmd.Run(), &exit)
			status := exit.Sys().(syscall.WaitStatus)
			if strings.HasPrefix(way, "own ") {
				assert.Equal(t, 7, status.ExitStatus(), "%s", out)
				assert.Empty(t, out.String())
				continue
			}
			assert.True(t, status.Signaled() && status.Signal() == syscall.SIGSEGV, "%s %s: %v", carrier, way, status)
			assert.Contains(t, out.String(), "the carrier "+carrier)
		}
	}
}
