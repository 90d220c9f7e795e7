package main

import (
	"archive/zip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/modroot"
	"ciddk/internal/testenv"
	"ciddk/tools/layers"
)

// TestRelease publishes the tree under another path, in a module proxy that is a folder. From there it installs
// ddk-validate, which makes a new module. The module requires the release, and is certified.
func TestRelease(t *testing.T) {
	testenv.Long(t)
	const path, version = "git.example.org/team/verbs-kit", "v0.1.0"
	root, err := modroot.Find()
	require.NoError(t, err)
	old, err := layers.Module(root)
	require.NoError(t, err)
	dir := t.TempDir()
	tree, proxy := filepath.Join(dir, "tree"), filepath.Join(dir, "proxy")
	files := copyTree(t, root, tree)
	_, err = setModule(tree, old, path)
	require.NoError(t, err)
	publish(t, tree, files, proxy, path, version)

	var urls []string
	for _, d := range []string{proxy, filepath.Join(goEnv(t, "GOMODCACHE"), "cache", "download")} {
		urls = append(urls, "file:///"+strings.TrimPrefix(filepath.ToSlash(d), "/"))
	}
	env := append(os.Environ(), "GOPROXY="+strings.Join(urls, ","), "GOSUMDB=off", "GOWORK=off", "CGO_ENABLED=0",
		"GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -modcacherw"),
		"GOMODCACHE="+filepath.Join(dir, "modules"), "GOBIN="+filepath.Join(dir, "bin"))
	run := func(in, name string, args ...string) string {
		t.Helper()
		c := exec.CommandContext(t.Context(), name, args...)
		c.Dir, c.Env = in, env
		out, err := c.CombinedOutput()
		require.NoError(t, err, "%s %v: %s", name, args, out)
		return string(out)
	}
	run(dir, "go", "install", path+"/cmd/ddk-validate@"+version)
	validate := filepath.Join(dir, "bin", "ddk-validate")
	if runtime.GOOS == "windows" {
		validate += ".exe"
	}
	assert.Contains(t, run(dir, validate, "--version"), version)
	driver := filepath.Join(dir, "driver")
	assert.Contains(t, run(dir, validate, "init", driver, "--module", "example.com/acme/hca"), "go mod tidy")
	mod, err := os.ReadFile(filepath.Join(driver, "go.mod"))
	require.NoError(t, err)
	assert.Contains(t, string(mod), path+" "+version)
	assert.NotContains(t, string(mod), "replace")
	// Without -e it fails when the tests of other modules import what this machine does not have.
	run(driver, "go", "mod", "tidy", "-e")
	run(driver, "go", "vet", "./...")
	out := run(driver, "go", "run", "./cmd/validate", "run", "--case", "rc.send*", "--expect",
		"testdata/expectations.json")
	assert.Contains(t, out, "SELECTION PASSED")
}

// publish writes a version of a module to a folder, in the layout of a module proxy.
func publish(t *testing.T, tree string, files map[string][]byte, proxy, path, version string) {
	dir := filepath.Join(proxy, filepath.FromSlash(path), "@v")
	require.NoError(t, os.MkdirAll(dir, 0o777))
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join(tree, name))
		require.NoError(t, err)
		return b
	}
	f, err := os.Create(filepath.Join(dir, version+".zip"))
	require.NoError(t, err)
	defer f.Close()
	z := zip.NewWriter(f)
	nested := func(name string) bool { // as go mod leaves out other modules
		for d := filepath.Dir(name); d != "."; d = filepath.Dir(d) {
			if _, isModule := files[filepath.Join(d, "go.mod")]; isModule {
				return true
			}
		}
		return false
	}
	for name := range files {
		if nested(name) {
			continue
		}
		w, err := z.Create(path + "@" + version + "/" + filepath.ToSlash(name))
		require.NoError(t, err)
		_, err = w.Write(read(name))
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	for name, text := range map[string]string{version + ".mod": string(read("go.mod")),
		version + ".info": `{"Version":"` + version + `"}`, "list": version + "\n"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
	}
}

// goEnv returns a variable of the go command.
func goEnv(t *testing.T, name string) string {
	out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}
