//go:build !unix && !windows

package validate

import (
	"errors"
	"os"
	"os/exec"
)

// inherit returns an error: this system has no inherited files. Cases run in process instead (--in-process,
// TestOptions.InProcess).
func inherit(*exec.Cmd, *os.File, *os.File) (string, error) {
	return "", errors.New("worker processes need inherited files, which this system does not have: run in process")
}

func inherited(fd uintptr, name string) *os.File { return os.NewFile(fd, name) }
