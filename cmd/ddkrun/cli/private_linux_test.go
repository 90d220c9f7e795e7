package cli

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/kproxy/devices"
)

// TestPrivateDir checks that neither a daemon nor a compiled library is taken from a directory that others can write
// to: a library would run as the user, and a daemon sees the program's data.
func TestPrivateDir(t *testing.T) {
	skipWithDaemon(t)
	for name, prepare := range map[string]func(t *testing.T, dir string){
		"others can write": func(t *testing.T, dir string) {
			require.NoError(t, os.Mkdir(dir, 0o700))
			require.NoError(t, os.Chmod(dir, 0o777))
		},
		"a link to one": func(t *testing.T, dir string) {
			require.NoError(t, os.Mkdir(dir+"-other", 0o700))
			require.NoError(t, os.Chmod(dir+"-other", 0o777))
			require.NoError(t, os.Symlink(dir+"-other", dir))
		},
		"a file": func(t *testing.T, dir string) { require.NoError(t, os.WriteFile(dir, nil, 0o600)) },
	} {
		t.Run(name, func(t *testing.T) {
			base := t.TempDir()
			t.Setenv("XDG_RUNTIME_DIR", base)
			t.Setenv("XDG_CACHE_HOME", "")
			t.Setenv("HOME", "")
			t.Setenv("DDKD_SOCKET", "")
			prepare(t, filepath.Join(base, "ddkrun"))
			_, err := findDaemon("", -1, 0)
			assert.ErrorContains(t, err, filepath.Join(base, "ddkrun"))
			_, err = materialize(nil)
			assert.ErrorContains(t, err, filepath.Join(base, "ddkrun"))
		})
	}
	t.Run("read-only", func(t *testing.T) {
		none := filepath.Join(t.TempDir(), "none")
		t.Setenv("TMPDIR", none)
		t.Setenv("XDG_RUNTIME_DIR", "")
		assert.Equal(t, filepath.Join(sharedMemory, userName()), runtimeDir(), "no directory for temporary files")
		assert.Equal(t, none, writableDir(none, none+"-too"), "there is none at all")
		t.Setenv("XDG_RUNTIME_DIR", "/proc/sys")
		_, err := materialize(nil)
		assert.ErrorContains(t, err, "set XDG_RUNTIME_DIR")
	})
	t.Run("one's own", func(t *testing.T) {
		base := t.TempDir()
		t.Setenv("XDG_RUNTIME_DIR", base)
		t.Setenv("DDKD_SOCKET", "")
		dir, err := privateDir()
		require.NoError(t, err)
		info, err := os.Stat(dir)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o700), info.Mode().Perm())
		_, err = findDaemon("", -1, 0)
		assert.ErrorIs(t, err, errNoDaemon)
	})
}

// TestOldTrees checks that trees that were not used for a long time are removed, and others remain.
func TestOldTrees(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	first, err := materialize([]devices.Entry{{Path: "/a", Data: []byte("1")}})
	require.NoError(t, err)
	second, err := materialize([]devices.Entry{{Path: "/a", Data: []byte("2")}})
	require.NoError(t, err)
	old := time.Now().Add(-2 * treeAge)
	for _, dir := range []string{first, second} {
		require.NoError(t, os.Chtimes(dir, old, old))
	}
	again, err := materialize([]devices.Entry{{Path: "/a", Data: []byte("1")}})
	require.NoError(t, err)
	assert.Equal(t, first, again, "it is used again")
	_, err = materialize([]devices.Entry{{Path: "/a", Data: []byte("3")}})
	require.NoError(t, err)
	assert.DirExists(t, first)
	assert.NoDirExists(t, second)
}
