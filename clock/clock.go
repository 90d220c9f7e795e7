// Package clock is where the kit takes its time from: one injected source, and one set of timers for each who has many. The whole
// stack, from the transport to the connection manager, runs on it, so that tests run in virtual time and replay.
package clock

import "time"

// Clock is a source of time.
type Clock interface {
	// Now is monotonic, since an origin of the clock's own.
	Now() time.Duration
	// AfterFunc calls f on a goroutine of its own after d. The timer can be stopped and set again.
	AfterFunc(d time.Duration, f func()) Timer
}

// Timer is a pending AfterFunc; *time.Timer is one.
type Timer interface {
	// Stop prevents the call; false if it has been made, or Stop was called before.
	Stop() bool
	// Reset sets the timer to fire after d; the result is as that of Stop.
	Reset(d time.Duration) bool
}

// Real is the machine's clock. Inside a testing/synctest bubble it is the bubble's.
func Real() Clock { return realClock{time.Now()} }

type realClock struct{ origin time.Time }

func (c realClock) Now() time.Duration { return time.Since(c.origin) }

func (realClock) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }
