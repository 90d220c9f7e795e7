package testenv

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestNumGoroutine(t *testing.T) {
	before := NumGoroutine()
	const num = 200
	var started, ended sync.WaitGroup
	stop := make(chan struct{})
	for range num {
		started.Add(1)
		ended.Go(func() { started.Done(); <-stop })
	}
	started.Wait()
	assert.InDelta(t, before+num, NumGoroutine(), 5) // goroutines of earlier tests may be about to end
	close(stop)
	ended.Wait()
}
