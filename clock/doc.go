// Package clock provides the time source of the kit. Everything from the transport to the connection manager takes a
// Clock instead of calling package time, so that tests run in virtual time and replay.
//
// A Clock has the time and timers. Real returns the clock of the machine, and NewVirtual a clock that a test advances:
//
//	c := clock.NewVirtual(0)
//	c.AfterFunc(time.Second, func() { fmt.Println(c.Elapsed()) })
//	c.Advance(time.Minute) // prints 1s
//
// A Wheel serves the many timers of one owner, such as the QPs of an HCA, with a single Timer of a Clock.
//
// All types may be used concurrently, except that only one goroutine at a time may advance a Virtual. Nothing in this
// package blocks or returns an error.
package clock
