//go:build !unix

package bench

import (
	"testing"
	"time"
)

// processTime returns false: the standard library does not have the processor time here.
func processTime(t *testing.T) time.Duration {
	t.Skip("the processor time of a process is asked for on Unix only")
	return 0
}
