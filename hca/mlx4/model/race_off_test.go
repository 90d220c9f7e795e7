//go:build !race

package model_test

// hasRaceDetector reports whether the race detector is on.
const hasRaceDetector = false
