package memlimit

import (
	"fmt"
	"math"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func addressSpace() int64 {
	limit := resource(unix.RLIMIT_AS)
	if limit == math.MaxInt64 {
		return limit
	}
	var pages int64
	if text, err := os.ReadFile("/proc/self/statm"); err == nil {
		_, _ = fmt.Sscan(string(text), &pages)
	}
	return max(limit-pages*int64(os.Getpagesize()), 0) / 2
}

const heaps = "MALLOC_ARENA_MAX"

func useOneHeap() {
	if _, isSet := os.LookupEnv(heaps); isSet || resource(unix.RLIMIT_AS) == math.MaxInt64 {
		return
	}
	if self, err := os.Executable(); err == nil {
		_ = unix.Exec(self, os.Args, append(os.Environ(), heaps+"=1")) // without it, the program works, too
	}
}

func memory() int64 {
	least := min(resource(unix.RLIMIT_DATA), groups("/proc/self/cgroup", "/sys/fs/cgroup"))
	var s unix.Sysinfo_t
	if unix.Sysinfo(&s) == nil {
		least = min(least, int64(min(uint64(s.Totalram)*uint64(s.Unit), math.MaxInt64)))
	}
	return least
}

// resource returns the soft limit of a resource, math.MaxInt64 if there is none.
func resource(what int) int64 {
	var l unix.Rlimit
	if unix.Getrlimit(what, &l) != nil {
		return math.MaxInt64
	}
	return int64(min(l.Cur, math.MaxInt64))
}

// groups returns the least limit of the control groups in a file, and of those above them (cgroups(7)). In a container,
// root is often that of the container's group, in which its path does not exist.
func groups(file, root string) int64 {
	least := int64(math.MaxInt64)
	text, err := os.ReadFile(file)
	if err != nil {
		return least
	}
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		base, name := root, "memory.max"
		switch {
		case parts[1] == "" && parts[0] == "0":
		case strings.Contains(","+parts[1]+",", ",memory,"):
			base, name = path.Join(root, "memory"), "memory.limit_in_bytes"
		default:
			continue
		}
		for dir := path.Join("/", parts[2]); ; dir = path.Dir(dir) {
			least = min(least, number(path.Join(base, dir, name)))
			if dir == "/" {
				break
			}
		}
	}
	return least
}

// number returns the number in a file, math.MaxInt64 if there is none, such as "max".
func number(file string) int64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return math.MaxInt64
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || n <= 0 {
		return math.MaxInt64
	}
	return n
}
