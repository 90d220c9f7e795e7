package hold

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestMutex holds a Mutex during a sleep in a bubble while another goroutine waits for it. Time must advance.
func TestMutex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMutex()
		start := time.Now()
		m.Lock()
		inside := true
		time.AfterFunc(time.Minute, func() {
			inside = false
			m.Unlock()
		})
		m.Lock()
		assert.False(t, inside)
		assert.Equal(t, time.Minute, time.Since(start))
		m.Unlock()
		assert.Panics(t, m.Unlock)
	})
}

// TestOnce calls Do from two goroutines while the function sleeps. Both return when it has returned.
func TestOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOnce()
		start := time.Now()
		calls := 0
		do := func() { o.Do(func() { time.Sleep(time.Minute); calls++ }) }
		go do()
		synctest.Wait()
		do()
		assert.Equal(t, 1, calls)
		assert.Equal(t, time.Minute, time.Since(start))
	})
}
