package accesslayer

import (
	"log/slog"
	"time"

	"ciddk/clock"
)

// Config holds the settings of an access layer. The zero value selects the defaults.
type Config struct {
	Logger *slog.Logger // nil: slog.Default
	Clock  clock.Clock  // nil: clock.Real

	// PollInterval is the time between two queries of each HCA. Queries find changes that the driver does not report:
	// events for LID, P_Key, SM and GID are only recommended [SAS-2.1-19]. 0: one second. Negative: no polling, for
	// drivers that report everything.
	PollInterval time.Duration

	// DrainTimeout bounds each blocking call that destroys objects (Close, Destroy, Deregister). After that time, the
	// call returns ci.Timeout and names the objects that it waits for; the destruction continues. 0: 30 seconds.
	DrainTimeout time.Duration

	// DestroyRetries is how often the access layer repeats a destroy that the driver refused. The first repetition is
	// after DestroyBackoff, and the time doubles each time, at most 16 times. Then the object is given up: the error is
	// logged, passed to OnDestroyError, and returned to callers that wait. 0: five retries. Negative: none.
	DestroyRetries int
	DestroyBackoff time.Duration // 0: 10 ms

	// OnDestroyError, if not nil, is called with the error of every object that is given up. It must not block.
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
