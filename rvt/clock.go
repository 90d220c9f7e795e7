package rvt

import "time"

// Clock is the one source of time. The whole stack runs on it, so that tests can run in virtual time.
type Clock interface {
	// Now is monotonic, since an origin of the clock's own.
	Now() time.Duration
	// AfterFunc calls f on a goroutine of its own after d. The timer can be stopped and set again.
	AfterFunc(d time.Duration, f func()) Timer
}

// Timer is a pending AfterFunc.
type Timer interface {
	Stop() bool
	Reset(d time.Duration) bool
}

// RealClock is the machine's. Inside a testing/synctest bubble it is the bubble's.
func RealClock() Clock { return realClock{time.Now()} }

type realClock struct{ origin time.Time }

func (c realClock) Now() time.Duration { return time.Since(c.origin) }

func (realClock) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }
