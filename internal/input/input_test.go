package input

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(path, []byte("text"), 0o600))
	b, err := Read(path, 4)
	require.NoError(t, err)
	assert.Equal(t, "text", string(b))
	_, err = Read(path, 3)
	require.ErrorContains(t, err, "more than 3 bytes")
	_, err = Read(path+"x", 3)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestOpenRegular(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	require.NoError(t, os.WriteFile(path, []byte("text"), 0o600))
	require.NoError(t, os.Symlink(path, filepath.Join(dir, "link")))
	for _, p := range []string{path, filepath.Join(dir, "link")} {
		f, err := OpenRegular(p)
		require.NoError(t, err, p)
		b, err := io.ReadAll(f)
		require.NoError(t, err, p)
		assert.Equal(t, "text", string(b), p)
		require.NoError(t, f.Close())
	}
	for _, p := range []string{dir, os.DevNull} {
		_, err := OpenRegular(p)
		require.ErrorContains(t, err, "no regular file", p)
	}
	_, err := OpenRegular(path + "x")
	require.ErrorIs(t, err, os.ErrNotExist)
}
