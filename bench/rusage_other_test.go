//go:build !unix

package bench

import (
	"testing"
	"time"
)

// processTime is not to be had by the standard library here.
func processTime(t *testing.T) time.Duration {
	t.Skip("the processor time of a process is asked for on Unix only")
	return 0
}
