package kproxy

import (
	"os"
	"strconv"
	"strings"

	"ciddk/internal/kproxy/schema"
)

// commandOf returns the name of a process's program. It is empty where the system has no /proc.
func commandOf(pid int) string {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	if err != nil {
		return ""
	}
	return schema.ClipText(strings.TrimSuffix(string(text), "\n"))
}
