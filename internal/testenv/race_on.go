//go:build race

package testenv

// Race reports whether the race detector is on: code is many times slower, and allocates more.
const Race = true
