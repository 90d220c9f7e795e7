//go:build race

package storm

// raceEnabled: the detector makes a storm thirty times slower.
const raceEnabled = true
