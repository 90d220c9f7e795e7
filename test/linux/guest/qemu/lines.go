package qemu

import "strings"

// firstLine returns the first line of a program's output.
func firstLine(b []byte) string {
	s, _, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
	return s
}
