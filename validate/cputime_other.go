//go:build !linux

package validate

// readCPUTime reports false: only Linux counts how long threads wait for a processor.
func readCPUTime() (cpuTime, bool) { return cpuTime{}, false }
