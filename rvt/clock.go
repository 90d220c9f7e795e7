package rvt

import "ciddk/clock"

// Clock and Timer are those of package clock: the one source of time of the whole stack.
type (
	Clock = clock.Clock
	Timer = clock.Timer
)

// RealClock is the machine's.
func RealClock() Clock { return clock.Real() }
