package guest

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"
)

// TestOnThread calls functions at the same time. None is on the first thread of the program.
func TestOnThread(t *testing.T) {
	var all sync.WaitGroup
	for range 200 {
		all.Add(1)
		onThread(func() {
			defer all.Done()
			assert.NotEqual(t, unix.Getpid(), unix.Gettid())
		})
	}
	all.Wait()
}
