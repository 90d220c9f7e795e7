package validate

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestWatchdog checks when a watchdog of 8 seconds bites.
func TestWatchdog(t *testing.T) {
	never := func(Conditions) bool { return false }
	for name, x := range map[string]struct {
		isStarved func(Conditions) bool
		reset     time.Duration // when it is reset, to 4 seconds; 0: never
		want      time.Duration
	}{
		"after its time": {never, 0, 8 * time.Second},
		"after a reset":  {never, 6500 * time.Millisecond, 11 * time.Second},
		"starved for three intervals": {func() func(Conditions) bool {
			n := 0
			return func(Conditions) bool { n++; return n <= 3 }
		}(), 0, 11 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin, bites := time.Now(), make(chan time.Duration, 1)
				w := newWatchdog(8*time.Second, func() { bites <- time.Since(begin) }, x.isStarved)
				defer w.Stop()
				if x.reset != 0 {
					time.Sleep(x.reset)
					w.Reset(4 * time.Second)
				}
				assert.Equal(t, x.want, <-bites)
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWatchdog(time.Second, func() { t.Error("a watchdog that was stopped has bitten") }, never)
		w.Stop()
		w.Stop()
		time.Sleep(time.Minute)
	})
}
