//go:build !race

package frame

// raceSent does nothing without the race detector.
func raceSent() {}

// raceReceived does nothing without the race detector.
func raceReceived() {}
