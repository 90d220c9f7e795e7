package scaffold

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/testenv"
	"ciddk/templates"
)

// TestWrite writes a module, and builds, tests and certifies it without the network.
func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	name, err := Write(Options{Dir: dir, Module: "example.com/acme/super-hca/v2", With: []string{"all"}})
	require.NoError(t, err)
	assert.Equal(t, "superhca", name)
	_, err = Write(Options{Dir: dir, Module: "example.com/acme/hca"})
	assert.ErrorContains(t, err, "is not empty")

	run := func(args ...string) string {
		t.Helper()
		c := exec.CommandContext(t.Context(), "go", args...)
		c.Dir = dir
		c.Env = append(os.Environ(), "GOPROXY=off", "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0")
		out, err := c.CombinedOutput()
		require.NoError(t, err, "go %v: %s", args, out)
		return string(out)
	}
	run("vet", "./...")
	deps := strings.Fields(run("list", "-deps", "-test", "./..."))
	assert.Contains(t, deps, "example.com/acme/super-hca/v2/soft")
	assert.Contains(t, deps, "example.com/acme/super-hca/v2/userlib")
	for _, d := range deps {
		assert.NotContains(t, d, "/templates/")
	}
	// One area is enough here, because the template's own tests run all of them.
	run("test", "-run", "TestDriver/(open|query|pd)|TestRollBack", "./...")
	out := run("run", "./cmd/validate", "run", "--case", "rc.send*", "--expect", "testdata/expectations.json")
	assert.Contains(t, out, "profile claimed: the widest that the driver's claims allow")
	assert.Contains(t, out, "SELECTION PASSED")
	assert.Contains(t, out, "superhca")
	run("build", "-o", filepath.Join(t.TempDir(), "ddkd"), "./cmd/ddkd")
	layers := []string{"accesslayer"}
	if runtime.GOOS == "linux" {
		layers = append(layers, "user", "bypass")
	}
	for _, layer := range layers {
		out := run("run", "./cmd/validate", "run", "--through", layer, "--case", "rc.send*", "--expect",
			"testdata/expectations.json")
		assert.Contains(t, out, "SELECTION PASSED")
		assert.Contains(t, out, "superhca-through-"+layer)
	}
	if runtime.GOOS == "linux" {
		out := run("run", "./cmd/validate", "run", "--profile", "user", "--case", "user.memory.*", "--case",
			"user.buffer.*")
		assert.Contains(t, out, "SELECTION PASSED")
	}
	require.NoError(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(p) != ".go" {
			return err
		}
		b, err := os.ReadFile(p)
		assert.NotContains(t, string(b), original, p)
		return err
	}))
	for _, f := range []string{"README.md", ".github/workflows/test.yml", "go.sum", "testdata/expectations.json"} {
		assert.FileExists(t, filepath.Join(dir, f))
	}
}

// TestVendorsPage runs the certifier on an untouched module, and compares the verdicts with those in docs/vendors.md.
// The core is the plain run and the one through a daemon with the user library.
func TestVendorsPage(t *testing.T) {
	testenv.Long(t)
	page, err := os.ReadFile("../../../docs/vendors.md")
	require.NoError(t, err)
	verdicts := regexp.MustCompile(`(?m)^    (CERTIFIED: .* \(driver hca.*\))$`).FindAllStringSubmatch(string(page), -1)
	layers := []string{"", "accesslayer", "user", "bypass"} // in the order of the page
	require.Len(t, verdicts, len(layers))
	dir := filepath.Join(t.TempDir(), "new")
	_, err = Write(Options{Dir: dir, Module: "example.com/acme/hca", With: []string{"user"}})
	require.NoError(t, err)
	build := exec.CommandContext(t.Context(), "go", "build", "-o", "validate.exe", "./cmd/validate")
	build.Dir = dir
	build.Env = append(os.Environ(), "GOPROXY=off", "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	core := []string{"", "bypass"}
	for i, layer := range layers {
		if !slices.Contains(core, layer) && !testenv.Whole() || i > 1 && runtime.GOOS != "linux" {
			continue
		}
		args := []string{"run", "--expect", "testdata/expectations.json", "--quiet"}
		if layer != "" {
			args = append(args, "--through", layer)
		}
		c := exec.CommandContext(t.Context(), filepath.Join(dir, "validate.exe"), args...)
		c.Dir = dir
		out, err := c.CombinedOutput()
		require.NoError(t, err, "%v: %s", args, out)
		want := strings.ReplaceAll(regexp.QuoteMeta(verdicts[i][1]), "…", "[0-9]+")
		assert.Regexp(t, "(?m)^"+want+"$", string(out))
	}
}

// TestFeatures builds a package for each set of features, in one module, and certifies some of them: the sets that
// docs/vendors.md names.
func TestFeatures(t *testing.T) {
	dir := t.TempDir()
	const module = "example.com/m"
	sets := 1 << len(Features)
	name := func(set int) (name string, with []string) {
		for i, f := range Features {
			if set>>i&1 != 0 {
				with = append(with, f)
			}
		}
		return "x" + strings.Join(with, ""), with
	}
	for set := range sets {
		pkg, with := name(set)
		sub := filepath.Join(dir, pkg)
		_, err := Write(Options{Dir: sub, Module: module + "/" + pkg, Name: "hca", With: with})
		require.NoError(t, err)
		mod, err := os.ReadFile(filepath.Join(sub, "go.mod"))
		require.NoError(t, err)
		mod = []byte(strings.Replace(string(mod), "module "+module+"/"+pkg, "module "+module, 1))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), mod, 0o666))
		require.NoError(t, os.Rename(filepath.Join(sub, "go.sum"), filepath.Join(dir, "go.sum")))
		require.NoError(t, os.Remove(filepath.Join(sub, "go.mod")))
	}
	run := func(path string, args ...string) string {
		t.Helper()
		c := exec.CommandContext(t.Context(), path, args...)
		c.Dir = dir
		c.Env = append(os.Environ(), "GOPROXY=off", "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0")
		out, err := c.CombinedOutput()
		require.NoError(t, err, "%s %v: %s", path, args, out)
		return string(out)
	}
	run("go", "vet", "./...") // compiles the tests, too
	if !testenv.Whole() {
		return
	}
	for set := range sets {
		pkg, with := name(set)
		if len(with) > 1 && len(with) < len(Features) {
			continue
		}
		run("go", "build", "-o", "validate.exe", "./"+pkg+"/cmd/validate")
		out := run(filepath.Join(dir, "validate.exe"), "run", "--quiet", "--expect", pkg+"/testdata/expectations.json")
		assert.Contains(t, out, "CERTIFIED: ", "%v", with)
	}
}

// TestStrip leaves out lines, blocks and cases.
func TestStrip(t *testing.T) {
	const in = `// Package x has files:
//
//	ud.go   datagrams, and
//	        addresses
//	srq.go  queues
package x
import (
	"a" // ud.go
	"b"
)
func f() {
	if a { // ud.go
		g()

		h()
	}

	switch {
	case a: // ud.go
		g()
	case b: // srq.go
		h()
	}
	k() // ud.go

	l(b) // see ud.go.
}`
	const out = `// Package x has files:
//
//	srq.go  queues
package x
import (
	"b"
)
func f() {

	switch {
	case b: // srq.go
		h()
	}

	l(b) // see ud.go.
}`
	assert.Equal(t, out, string(strip([]byte(in), []string{"ud", "mw"})))
	_, err := unchosen([]string{"ud", "rd"})
	assert.ErrorContains(t, err, "--with rd: want some of ud, ")
	without, err := unchosen([]string{"ud"})
	require.NoError(t, err)
	assert.Equal(t, Features[1:], without)
	without, err = unchosen([]string{"all"})
	require.NoError(t, err)
	assert.Empty(t, without)
}

func TestNames(t *testing.T) {
	for module, want := range map[string]string{
		"example.com/acme/hca":      "hca",
		"example.com/acme/Super.ib": "superib",
		"example.com/acme/v3":       "acme",
		"example.com/x/40g":         "hca40g",
		"acme":                      "acme",
	} {
		require.NoError(t, checkModule(module))
		assert.Equal(t, want, packageName(module), module)
	}
	for _, bad := range []string{"", "/", "a b", "a//b", "a/", "a\n"} {
		assert.Error(t, checkModule(bad), "%q", bad)
	}
	source, err := fs.Sub(templates.RCHCA, original)
	require.NoError(t, err)
	for name, text := range map[string]string{
		"type": "is not a Go identifier", "": "is not a Go identifier", "soft": "is in use", "t": "is in use",
	} {
		r := renamer{kit: kitModule(), module: "example.com/m", name: name}
		assert.ErrorContains(t, r.check(source), text)
	}
	for _, name := range []string{"hca", "nic", "adapter", "acme", "device2"} {
		r := renamer{kit: kitModule(), module: "example.com/m", name: name}
		assert.NoError(t, r.check(source), name)
	}
}

func TestFindKit(t *testing.T) {
	k, err := findKit("")
	require.NoError(t, err)
	assert.FileExists(t, filepath.Join(k.dir, "go.mod"))
	_, err = findKit(t.TempDir())
	assert.ErrorContains(t, err, "is not that of module "+k.module)
	b, err := kit{module: "example.com/kit", version: "v1.2.3"}.goMod("example.com/m")
	require.NoError(t, err)
	assert.Contains(t, string(b), "require example.com/kit v1.2.3\n")
}
