//go:build unix

package input

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFIFO opens a pipe without a writer, which does not wait.
func TestFIFO(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	_, err := OpenRegular(path)
	require.ErrorContains(t, err, "no regular file")
}
