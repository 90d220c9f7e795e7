//go:build unix

package bench

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// processTime returns the processor time that this process has used.
func processTime(t *testing.T) time.Duration {
	var r syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &r))
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
