package cli

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

//go:generate go test -count=1 -run ^TestBuilt$ . -update

var update = flag.Bool("update", false, "build the libraries in preload/built")

// oldestMinor is the minor version of the oldest glibc for which the libraries are built, 2.28: that of Debian 10 and
// RHEL 8.
const oldestMinor = 28

// builders are the compilers with which the libraries are built, the first version of the C library for the processor,
// which functions have that never changed, and flags for it. Outlined atomics need a constructor of the compiler.
var builders = map[string]struct {
	command, compiler, first string
	flags                    []string
}{
	"amd64": {"x86_64-linux-gnu-gcc", "(Debian 12.2.0-14+deb12u1) 12.2.0", "GLIBC_2.2.5", nil},
	"arm64": {"aarch64-linux-gnu-gcc", "(Debian 12.2.0-14) 12.2.0", "GLIBC_2.17",
		[]string{"-mno-outline-atomics"}},
}

// moved are functions that glibc 2.34 moved to libc.so.6, with another version. It keeps the first one.
var moved = []string{"dladdr", "dlerror", "dlopen", "dlsym", "dlvsym", "pthread_attr_setstacksize",
	"pthread_create", "pthread_once", "sem_destroy", "sem_init", "sem_post", "sem_wait"}

// buildFlags returns the flags of a build besides compileFlags: no files of the compiler, and the libraries in which
// glibc had the functions of moved before 2.34. mendLibrary needs no threads.
func buildFlags(l library, processor string) []string {
	flags := append(slices.Clone(builders[processor].flags), "-s", "-nostartfiles",
		"-Wl,--no-as-needed,-z,noseparate-code,-z,norelro", "-l:libdl.so.2")
	if l.name == carrierLibrary.name {
		flags = append(flags, "-l:libpthread.so.0")
	}
	return flags
}

// buildSource returns the source of a library for a processor, and the number of what it is built from.
func buildSource(l library, processor string) (source []byte, id string) {
	for _, name := range moved {
		source = fmt.Appendf(source, "__asm__(\".symver %s, %[1]s@%s\");\n", name, builders[processor].first)
	}
	source = append(source, l.source()...)
	flags := strings.Join(append(compileFlags, buildFlags(l, processor)...), " ")
	sum := sha256.Sum256(append(slices.Clip(source), flags...))
	return source, fmt.Sprintf("%x", sum[:20])
}

// build builds a library for a processor. The library has the number of what it was built from as its build ID.
func build(t *testing.T, l library, processor string) []byte {
	source, id := buildSource(l, processor)
	path := filepath.Join(t.TempDir(), l.name)
	args := append(append([]string{"-Wl,--build-id=0x" + id, "-o", path}, compileFlags...), "-")
	cmd := exec.Command(builders[processor].command, append(args, buildFlags(l, processor)...)...)
	cmd.Stdin = bytes.NewReader(source)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return b
}

// missingBuilder returns why a library cannot be built for a processor here, "" if it can.
func missingBuilder(processor string) string {
	b := builders[processor]
	out, err := exec.Command(b.command, "--version").Output()
	if err != nil {
		return err.Error() + " (Debian 12: gcc, gcc-aarch64-linux-gnu, libc6-dev-arm64-cross)"
	}
	first, _, _ := strings.Cut(string(out), "\n")
	if _, version, _ := strings.Cut(first, " "); version != b.compiler {
		return fmt.Sprintf("%s is %s, and the libraries are built with %s", b.command, version, b.compiler)
	}
	return ""
}

// TestBuilt checks the libraries that ddkrun brings: that they are built from the source as it is, with compilers that
// are named here, and that glibc loads them from oldestMinor on. With one of the compilers, the same bytes come out
// again. go generate builds them.
func TestBuilt(t *testing.T) {
	for processor, b := range builders {
		for _, l := range []library{carrierLibrary, mendLibrary} {
			t.Run(processor+" "+l.name, func(t *testing.T) {
				missing := missingBuilder(processor)
				if *update {
					require.Empty(t, missing)
					name := filepath.Join("preload", "built", processor, l.name+librarySuffix)
					require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
					require.NoError(t, os.WriteFile(name, build(t, l, processor), 0o644))
					return
				}
				content := l.built(processor)
				f, err := elf.NewFile(bytes.NewReader(content))
				require.NoError(t, err)
				assert.Equal(t, machines[processor], f.Machine)
				_, id := buildSource(l, processor)
				note, err := f.Section(".note.gnu.build-id").Data()
				require.NoError(t, err)
				require.Equal(t, id, fmt.Sprintf("%x", note[len(note)-len(id)/2:]),
					"it was built from another source or with other flags: go generate ./cmd/ddkrun/cli")
				comment, err := f.Section(".comment").Data()
				require.NoError(t, err)
				assert.Equal(t, "GCC: "+b.compiler+"\x00", string(comment))
				checkNeeds(t, f, l)
				if missing != "" {
					t.Skip(missing)
				}
				assert.True(t, bytes.Equal(content, build(t, l, processor)), "the compiler makes other bytes of it")
			})
		}
	}
}

// TestInOne checks what the libraries need where the C library is one file.
func TestInOne(t *testing.T) {
	t.Parallel()
	for processor := range builders {
		for _, l := range []library{carrierLibrary, mendLibrary} {
			f, err := elf.NewFile(bytes.NewReader(inOne(l.built(processor))))
			require.NoError(t, err)
			libraries, err := f.ImportedLibraries()
			require.NoError(t, err)
			assert.Equal(t, []string{"libc.so.6"}, slices.Compact(libraries))
			needs, err := f.DynamicVersionNeeds()
			require.NoError(t, err)
			for _, n := range needs {
				assert.Equal(t, "libc.so.6", n.Name)
			}
		}
	}
}

// TestLayout checks the places of the library against the header of libibverbs, with the compilers that are here.
func TestLayout(t *testing.T) {
	if _, err := os.Stat("/usr/include/infiniband/verbs.h"); err != nil {
		t.Skip(err, " (Debian: libibverbs-dev)")
	}
	for processor, b := range builders {
		t.Run(processor, func(t *testing.T) {
			if _, err := exec.LookPath(b.command); err != nil {
				t.Skip(err)
			}
			// The header is the same for all processors.
			out, err := exec.Command(b.command, "-fsyntax-only", "-Wall", "-Werror", "-idirafter", "/usr/include",
				filepath.Join("testdata", "layout.c")).CombinedOutput()
			assert.NoError(t, err, "%s", out)
		})
	}
}

// checkNeeds checks what a library needs of the C library.
func checkNeeds(t *testing.T, f *elf.File, l library) {
	libraries, err := f.ImportedLibraries()
	require.NoError(t, err)
	want := []string{"libdl.so.2", "libpthread.so.0", "libc.so.6"} // which musl takes for its own, too
	if l.name == mendLibrary.name {
		want = []string{"libdl.so.2", "libc.so.6"}
	}
	assert.Equal(t, want, libraries)
	needs, err := f.DynamicVersionNeeds()
	require.NoError(t, err)
	require.NotEmpty(t, needs)
	for _, n := range needs {
		for _, v := range n.Needs {
			number, ok := strings.CutPrefix(v.Dep, "GLIBC_2.")
			number, _, _ = strings.Cut(number, ".")
			minor, err := strconv.Atoi(number)
			assert.True(t, ok && err == nil && minor <= oldestMinor, "%s of %s", v.Dep, n.Name)
		}
	}
}
