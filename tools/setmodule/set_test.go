package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/modroot"
	"ciddk/internal/testenv"
	"ciddk/tools/layers"
)

func TestReplace(t *testing.T) {
	for _, tt := range []struct {
		in, want string
		goMod    bool
	}{
		{`import "kit/ci"`, `import "example.com/x/ci"`, false},
		{"go run kit/cmd/a@latest, -require=kit@v1 -replace=kit=../kit", "go run example.com/x/cmd/a@latest, " +
			"-require=example.com/x@v1 -replace=example.com/x=../kit", false},
		{"the path `kit`", "the path `example.com/x`", false},
		{`"kit"; a kit; kit-guest; kit.agent; toolkit/x; ../kit/y; github.com/kit/z`,
			`"kit"; a kit; kit-guest; kit.agent; toolkit/x; ../kit/y; github.com/kit/z`, false},
		{"module kit\n\nreplace kit => ../..\n", "module example.com/x\n\nreplace example.com/x => ../..\n", true},
		{"- kit/ci\nkit", "- example.com/x/ci\nkit", false},
	} {
		assert.Equal(t, tt.want, string(replace([]byte(tt.in), "kit", "example.com/x", tt.goMod)))
	}
}

func TestCheckPath(t *testing.T) {
	for _, ok := range []string{"kit", "example.com/you/kit", "git.example.com/~a/b.c"} {
		assert.NoError(t, checkPath(ok))
	}
	for _, bad := range []string{"", "/a", "a/", "a b", "a//b", "a\"b", "std", "cmd", "-a"} {
		assert.Error(t, checkPath(bad), bad)
	}
}

// TestTree changes the path of a copy of the tree. Some packages then build, and all of them with CIDDK_WHOLE set.
// Changing it back restores every file.
func TestTree(t *testing.T) {
	const path = "git.example.org/team/verbs-kit" // sorts between other modules
	testenv.Long(t)
	root, err := modroot.Find()
	require.NoError(t, err)
	old, err := layers.Module(root)
	require.NoError(t, err)
	dir := t.TempDir()
	before := copyTree(t, root, dir)
	n, err := setModule(dir, old, path)
	require.NoError(t, err)
	assert.Greater(t, n, len(before)/4)
	module, err := layers.Module(dir)
	require.NoError(t, err)
	assert.Equal(t, path, module)

	run := func(args ...string) {
		t.Helper()
		c := exec.CommandContext(t.Context(), "go", args...)
		c.Dir = dir
		c.Env = append(os.Environ(), "GOPROXY=off", "GOWORK=off", "GOFLAGS=-buildvcs=false", "CGO_ENABLED=0")
		out, err := c.CombinedOutput()
		require.NoError(t, err, "go %v: %s", args, out)
	}
	run("vet", "./ci", "./wire", "./mad", "./tools/layers")
	if testenv.Whole() {
		run("build", "./...")
		run("vet", "./ci/...", "./accesslayer/...", "./cmd/ddk-validate/...")
		run("test", "-short", "./ci/...", "./wire/...", "./tools/docgen", "./validate/report",
			"./cmd/ddk-validate/scaffold")
	}

	_, err = setModule(dir, path, old)
	require.NoError(t, err)
	for name, b := range before {
		now, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, string(b), string(now), name)
	}
}

// copyTree copies all source files, and returns them by name.
func copyTree(t *testing.T, from, to string) map[string][]byte {
	files := map[string][]byte{}
	require.NoError(t, filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, p)
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(skipped, d.Name()):
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, rel), 0o777)
		case !d.Type().IsRegular():
			return nil
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		files[rel] = b
		return os.WriteFile(filepath.Join(to, rel), b, 0o666)
	}))
	return files
}
