package cli

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ciddk/internal/testenv"
)

// another is a user that is neither this one nor root.
const another = 54321

// TestLibraryPath checks that the library is where the dynamic linker preloads it, and where nobody else can have put
// it, whatever the path of the cache directory is.
func TestLibraryPath(t *testing.T) {
	for name, x := range map[string]struct {
		cache    string // below the test's directory, unless it is absolute
		prepare  func(t *testing.T, cache string)
		isCached bool // the library is in the cache directory
		needRoot bool
	}{
		"plain":        {cache: "a", isCached: true},
		"newline":      {cache: "a\nb", isCached: true},
		"quotes":       {cache: `a'"\b`, isCached: true},
		"space":        {cache: "a b"},
		"colon":        {cache: "a:b"},
		"origin":       {cache: "$ORIGIN"},
		"library":      {cache: "a/${LIB}/b"},
		"long":         {cache: strings.Repeat(strings.Repeat("a", 200)+"/", 30)},
		"root":         {cache: "/proc/none"},
		"link":         {cache: "a b", prepare: linkTo("plain"), isCached: true},
		"others write": {cache: "a", prepare: withMode(0o777)},
		"others write above": {cache: "a/b/c", prepare: func(t *testing.T, cache string) {
			withMode(0o777)(t, filepath.Dir(filepath.Dir(cache)))
		}},
		"foreign": {cache: "a", prepare: func(t *testing.T, cache string) {
			withMode(0o755)(t, cache)
			require.NoError(t, os.Chown(cache, another, another))
		}, needRoot: true},
	} {
		t.Run(name, func(t *testing.T) {
			if x.needRoot && os.Geteuid() != 0 {
				t.Skip("only root can make directories of another user")
			}
			dir := useDirs(t)
			cache := x.cache
			if !filepath.IsAbs(cache) {
				cache = filepath.Join(t.TempDir(), cache)
			}
			if x.prepare != nil {
				x.prepare(t, cache)
			}
			t.Setenv("XDG_CACHE_HOME", cache)
			path, err := carrierLibrary.install(false)
			require.NoError(t, err)
			want := dir
			if x.isCached {
				want, err = filepath.EvalSymlinks(filepath.Join(cache, "ddkrun"))
				require.NoError(t, err)
			}
			assert.Equal(t, want, filepath.Dir(path))
			again, err := carrierLibrary.install(false)
			require.NoError(t, err)
			assert.Equal(t, path, again)
			cmd := exec.Command("/bin/sh", "-c", "exec cat /proc/self/maps")
			cmd.Env = []string{envPreload + "=" + path}
			out, err := cmd.CombinedOutput()
			require.NoError(t, err)
			assert.NotContains(t, string(out), "cannot be preloaded")
			assert.Contains(t, string(out), filepath.Base(path))
		})
	}
	t.Run("relative", func(t *testing.T) { // such paths do not count
		useDirs(t)
		t.Setenv("XDG_CACHE_HOME", "a")
		t.Chdir(t.TempDir())
		path, err := carrierLibrary.install(false)
		require.NoError(t, err)
		assert.True(t, filepath.IsAbs(path))
		assert.NoDirExists(t, "a")
	})
}

func linkTo(target string) func(t *testing.T, cache string) {
	return func(t *testing.T, cache string) {
		require.NoError(t, os.Mkdir(filepath.Join(filepath.Dir(cache), target), 0o700))
		require.NoError(t, os.Symlink(target, cache))
	}
}

func withMode(mode os.FileMode) func(t *testing.T, dir string) {
	return func(t *testing.T, dir string) {
		require.NoError(t, os.Mkdir(dir, 0o700))
		require.NoError(t, os.Chmod(dir, mode))
	}
}

// TestPlantedLibrary checks that a file in the cache directory is only preloaded if this user has written it, and it is
// whole.
func TestPlantedLibrary(t *testing.T) {
	for name, plant := range map[string]func(t *testing.T, path string){
		"cut off": func(t *testing.T, path string) { require.NoError(t, os.Truncate(path, 1000)) },
		"empty":   func(t *testing.T, path string) { require.NoError(t, os.Truncate(path, 0)) },
		"others write": func(t *testing.T, path string) {
			require.NoError(t, os.Chmod(path, 0o777))
		},
		"link": func(t *testing.T, path string) {
			require.NoError(t, os.Rename(path, path+".other"))
			require.NoError(t, os.Symlink(path+".other", path))
		},
		"fifo": func(t *testing.T, path string) {
			require.NoError(t, os.Remove(path))
			require.NoError(t, unix.Mkfifo(path, 0o600))
		},
		"directory": func(t *testing.T, path string) {
			require.NoError(t, os.Rename(path, path+".other"))
			require.NoError(t, os.Mkdir(path, 0o700))
		},
		"foreign": func(t *testing.T, path string) {
			if os.Geteuid() != 0 {
				t.Skip("only root can make files of another user")
			}
			require.NoError(t, os.Chown(path, another, another))
		},
	} {
		t.Run(name, func(t *testing.T) {
			useDirs(t)
			t.Setenv("XDG_CACHE_HOME", t.TempDir())
			path, err := carrierLibrary.install(false)
			require.NoError(t, err)
			plant(t, path)
			again, err := carrierLibrary.install(false)
			require.NoError(t, err)
			content, err := os.ReadFile(again)
			require.NoError(t, err)
			assert.Equal(t, "\x7fELF", string(content[:4]))
			info, err := os.Lstat(again)
			require.NoError(t, err)
			assert.True(t, info.Mode().IsRegular() && info.Mode().Perm()&0o022 == 0, "%v", info.Mode())
		})
	}
}

// TestSecure checks the carrier for programs of which the dynamic linker preloads nothing.
func TestSecure(t *testing.T) {
	program := elfFile(t, "/lib64/ld-linux-x86-64.so.2\x00", ".comment")
	require.NoError(t, os.Chmod(program, 0o755|os.ModeSetuid))
	assert.Equal(t, kindDynamic, kindOf(program), "it is the caller's own")
	if os.Geteuid() != 0 {
		t.Skip("only root can make files of another user")
	}
	require.NoError(t, os.Chown(program, another, another))
	require.NoError(t, os.Chmod(program, 0o755|os.ModeSetuid))
	assert.Equal(t, kindSecure, kindOf(program))
	c, err := choose(options{carrier: carrierAuto}, program)
	require.NoError(t, err)
	assert.Equal(t, carrierSeccomp, c.carrier)
	require.NoError(t, os.Chmod(program, 0o755|os.ModeSetgid))
	assert.Equal(t, kindSecure, kindOf(program))
	require.NoError(t, os.Chmod(program, 0o755))
	assert.Equal(t, kindDynamic, kindOf(program))
}

// TestAbandonedLibrary checks that what killed processes have left of libraries is removed before the next one is
// written, and that what another process is writing is not.
func TestAbandonedLibrary(t *testing.T) {
	useDirs(t)
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	dir := filepath.Join(cache, "ddkrun")
	require.NoError(t, os.Mkdir(dir, 0o700))
	left, other := filepath.Join(dir, "preload-1.tmp"), filepath.Join(dir, "notes.tmp")
	for _, path := range []string{left, other} {
		require.NoError(t, os.WriteFile(path, nil, 0o600))
	}
	lock, err := removeAbandoned(dir)
	require.NoError(t, err)
	require.NoFileExists(t, left)
	require.NoError(t, os.WriteFile(left, nil, 0o600)) // the other process writes
	_, err = carrierLibrary.install(false)
	require.NoError(t, err)
	require.FileExists(t, left)
	require.NoError(t, lock.Close()) // it is killed
	path, err := mendLibrary.install(false)
	require.NoError(t, err)
	require.NoFileExists(t, left)
	require.FileExists(t, other)
	require.FileExists(t, path)
}

// TestCompile compiles the library, which has the functions of the one that ddkrun brings.
func TestCompile(t *testing.T) {
	testenv.Long(t)
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("no C compiler (Debian: gcc)")
	}
	useDirs(t)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for _, l := range []library{carrierLibrary, mendLibrary} {
		path, err := l.install(true)
		require.NoError(t, err)
		again, err := l.install(true)
		require.NoError(t, err)
		assert.Equal(t, path, again)
		brought, err := l.install(false)
		require.NoError(t, err)
		assert.NotEqual(t, path, brought)
		assert.Equal(t, exportedBy(t, brought), exportedBy(t, path))
	}
}

// exportedBy returns the symbols that a library exports.
func exportedBy(t *testing.T, path string) (list []string) {
	f, err := elf.Open(path)
	require.NoError(t, err)
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	require.NoError(t, err)
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF {
			list = append(list, s.Name)
		}
	}
	slices.Sort(list)
	return list
}
