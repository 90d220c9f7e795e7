//go:build race

package frame

import "sync/atomic"

var raceSequence atomic.Uint64

// raceSent and raceReceived let the race detector see that what a process wrote before it sent a frame over a socket
// happened before the frame's reception in the same process.
func raceSent() { raceSequence.Add(1) }

func raceReceived() { raceSequence.Load() }
