//go:build unix

package cli

import (
	"os"
	"syscall"
)

// replace replaces this program by another one. It returns only an error.
func replace(path string, args []string) error { return syscall.Exec(path, args, os.Environ()) }
