package kproxy

import (
	"os"
	"strconv"
	"strings"
	"sync"
)

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
