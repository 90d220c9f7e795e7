package kproxy

import (
	"math"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// maxFiles returns how many descriptors a daemon has for objects of clients: three quarters of what the process may
// have. The others are for connections.
var maxFiles = sync.OnceValue(func() int64 {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil || l.Cur > math.MaxInt32 {
		return math.MaxInt32
	}
	return int64(l.Cur) / 4 * 3
})

// maxMappings returns how many mappings of clients' memory a daemon makes: half of what the kernel permits a process,
// since the daemon itself fails without mappings.
var maxMappings = sync.OnceValue(func() int64 {
	const kernelDefault = 65530
	text, err := os.ReadFile("/proc/sys/vm/max_map_count")
	if err == nil {
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 {
			return n / 2
		}
	}
	return kernelDefault / 2
})
