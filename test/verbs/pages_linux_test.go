package verbs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/modroot"
	"ciddk/internal/testenv"
)

// verbsHeader is the file of libibverbs that programs in C need (Debian: libibverbs-dev).
const verbsHeader = "/usr/include/infiniband/verbs.h"

// pages are the pages of docs for the CI of programs in a language: the files that the blocks of a page are, in their
// order, others that a project has, and the commands that run its tests.
var pages = []struct {
	name     string
	blocks   []string // "": not used
	others   map[string]string
	needs    []string // programs and files
	commands string
	want     string
}{
	{"ci-c.md", []string{"CMakeLists.txt", "device_test.c"}, nil, []string{"cmake", "ctest", "cc", verbsHeader},
		"cmake -B build && cmake --build build && ctest --test-dir build",
		"100% tests passed, 0 tests failed out of 1"},
	{"ci-rust.md", []string{"", "src/lib.rs"},
		map[string]string{"Cargo.toml": "[package]\nname = \"device\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"},
		[]string{"cargo", "cc"}, "cargo test --offline", "1 passed; 0 failed"},
	{"ci-python.md", []string{"test_device.py", "test_ctypes.py"}, nil,
		[]string{python, "pytest-3", "/usr/lib/python3/dist-packages/pyverbs"},
		python + " -m pytest -q", "2 passed"},
	{"ci-go.md", []string{"device.go", ""}, map[string]string{"go.mod": "module device\n\ngo 1.26\n",
		"device_test.go": "package device\n\nimport \"testing\"\n\nfunc TestDevice(t *testing.T) {\n" +
			"\tif name := first(); name != \"rxe_ddk0\" {\n\t\tt.Fatal(name)\n\t}\n}\n"},
		[]string{"go", "cc", verbsHeader}, "go test -v ./...", "--- PASS: TestDevice"},
}

// block matches a block of code of a page.
var block = regexp.MustCompile("(?ms)^```[a-z]+\n(.*?)^```")

// TestPages runs the tests in the pages of docs for the CI of programs in a language.
func TestPages(t *testing.T) {
	testenv.Long(t)
	root, err := modroot.Find()
	require.NoError(t, err)
	for _, x := range pages {
		t.Run(x.name, func(t *testing.T) {
			for _, name := range x.needs {
				_, err := os.Stat(name)
				if !filepath.IsAbs(name) {
					_, err = exec.LookPath(name)
				}
				if err != nil {
					t.Skip(err)
				}
			}
			page, err := os.ReadFile(filepath.Join(root, "docs", x.name))
			require.NoError(t, err)
			dir := t.TempDir()
			write := func(name, text string) {
				name = filepath.Join(dir, name)
				require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
				require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
			}
			found := block.FindAllSubmatch(page, -1)
			require.Len(t, found, len(x.blocks))
			for i, name := range x.blocks {
				if name != "" {
					write(name, string(found[i][1]))
				}
			}
			for name, text := range x.others {
				write(name, text)
			}
			r := newRig(t)
			r.env = append(r.env, "GOFLAGS=", "CGO_ENABLED=1", "CARGO_TARGET_DIR="+dir, "PYTHONDONTWRITEBYTECODE=1")
			assert.Contains(t, r.run("sh", "-c", `cd "$0" && `+x.commands, dir), x.want)
		})
	}
}
