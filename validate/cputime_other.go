//go:build !linux

package validate

// readCPUTime returns false: only Linux counts how long threads wait for a processor.
func readCPUTime(int) (cpuTime, bool) { return cpuTime{}, false }
