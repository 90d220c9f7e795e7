package validate

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// readCPUTime returns the sums of what the kernel's scheduler counts for each thread of a process: nanoseconds on a
// processor and nanoseconds runnable without one (/proc/PID/task/TID/schedstat). It returns false if the kernel does
// not count.
func readCPUTime(pid int) (cpuTime, bool) {
	dir := "self"
	if pid != 0 {
		dir = strconv.Itoa(pid)
	}
	files, err := filepath.Glob("/proc/" + dir + "/task/*/schedstat")
	if err != nil || len(files) == 0 {
		return cpuTime{}, false
	}
	var sum cpuTime
	for _, f := range files {
		b, err := os.ReadFile(f) // #nosec G304 -- a file of the kernel's
		if err != nil {
			continue // the thread has ended
		}
		var run, wait int64
		if _, err := fmt.Sscan(string(b), &run, &wait); err != nil {
			return cpuTime{}, false
		}
		sum.run += time.Duration(run)
		sum.wait += time.Duration(wait)
	}
	return sum, true
}
