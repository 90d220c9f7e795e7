package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestFaultsOf compares the faults of releases.
func TestFaultsOf(t *testing.T) {
	t.Parallel()
	for release, want := range map[int]int{33: 3, 34: 6, 39: 5, 44: 6, 54: 6, 55: 5, 59: 4, 64: 3, 65: 3} {
		assert.Len(t, faultsOf(release), want, "rdma-core %d", release)
	}
	f := fault{fixed: 55, isMended: true}
	assert.Equal(t, "worked around", f.state(false))
	assert.Equal(t, "until rdma-core 55", f.state(true))
}

// TestUserLibrary finds libraries by their names.
func TestUserLibrary(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "libibverbs.so.1")
	for name, want := range map[string]string{
		"libibverbs.so.1.14.44.0": "(rdma-core 44.0)\n", "libibverbs.so.1.16.65.1": "(rdma-core 65.1)\n",
		"libibverbs.so.1.0.0": "has no release",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
		require.NoError(t, os.Symlink(name, link))
		t.Setenv("LD_LIBRARY_PATH", ":"+dir)
		var b strings.Builder
		explainFaults(&b, "")
		assert.Contains(t, b.String(), "library:  "+filepath.Join(dir, name))
		assert.Contains(t, b.String(), want)
		require.NoError(t, os.Remove(link))
	}
}
