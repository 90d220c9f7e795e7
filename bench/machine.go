package bench

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// Machine returns a description of this machine, as far as it is known.
func Machine() string {
	s := fmt.Sprintf("%s, %s/%s, %d processors", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return s // not Linux
	}
	for line := range strings.Lines(string(b)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			s += " (" + strings.TrimSpace(value) + ")"
			break
		}
	}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		s += ", Linux " + strings.TrimSpace(string(b))
	}
	return s
}
