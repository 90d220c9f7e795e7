//go:build !race

package testenv

// Race tells that the race detector is on: code is many times slower, and allocates more.
const Race = false
