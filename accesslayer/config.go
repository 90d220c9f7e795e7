package accesslayer

import (
	"log/slog"
	"time"

	"ciddk/clock"
)

// Config tunes an access layer. The zero value is good for use.
type Config struct {
	Logger *slog.Logger // nil: slog.Default
	Clock  clock.Clock  // nil: the machine's

	// PollInterval is the time between two queries of each HCA, to find changes that its driver does not report: LID, P_Key, SM and
	// GID events are only recommended [SAS-2.1-19]. 0: one second. Negative: no polling, for drivers that report everything.
	PollInterval time.Duration

	// DrainTimeout bounds each blocking destroy (Close, Destroy, Deregister). When it is over, the call returns ci.Timeout and says
	// what was waited for, and the destruction goes on. 0: 30 seconds.
	DrainTimeout time.Duration

	// DestroyRetries is how often a destroy that the driver refused is tried again, the first time after DestroyBackoff, then after
	// twice the time before. Then the object is given up: the error is logged, goes to OnDestroyError and to whoever waits.
	// 0: five retries. Negative: none.
	DestroyRetries int
	DestroyBackoff time.Duration // 0: 10 ms

	// OnDestroyError gets the error of every object that was given up. It must not block. May be nil.
	OnDestroyError func(error)
}

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Clock == nil {
		c.Clock = clock.Real()
	}
	if c.PollInterval == 0 {
		c.PollInterval = time.Second
	}
	if c.DrainTimeout <= 0 {
		c.DrainTimeout = 30 * time.Second
	}
	if c.DestroyRetries == 0 {
		c.DestroyRetries = 5
	}
	if c.DestroyBackoff <= 0 {
		c.DestroyBackoff = 10 * time.Millisecond
	}
	return c
}
