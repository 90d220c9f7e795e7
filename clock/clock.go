package clock

import "time"

// Clock is a source of time.
type Clock interface {
	// Elapsed returns the monotonic time since an origin that the clock chooses.
	Elapsed() time.Duration
	// AfterFunc calls f after d, on a goroutine of the clock. The result can stop the call, and start it again.
	AfterFunc(d time.Duration, f func()) Timer
}

// Timer is a call of AfterFunc. *time.Timer implements it.
type Timer interface {
	// Stop prevents the call. It returns false if the timer has expired or been stopped.
	Stop() bool
	// Reset sets the timer to expire after d. It returns false if the timer had expired or been stopped.
	Reset(d time.Duration) bool
}

// Real returns the clock of the machine. Inside a testing/synctest bubble, it is the clock of the bubble.
func Real() Clock { return realClock{time.Now()} }

type realClock struct{ origin time.Time }

func (c realClock) Elapsed() time.Duration { return time.Since(c.origin) }

func (realClock) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }
