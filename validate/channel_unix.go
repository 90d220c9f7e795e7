//go:build unix

package validate

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// inherit passes files to a command and returns the names by which inherited finds them.
func inherit(cmd *exec.Cmd, in, out *os.File) (names string, err error) {
	n := 3 + len(cmd.ExtraFiles)
	cmd.ExtraFiles = append(cmd.ExtraFiles, in, out)
	return fmt.Sprintf("%d,%d", n, n+1), nil
}

// inherited opens a descriptor that the parent passed on. It is not inherited by programs that the driver starts.
func inherited(fd uintptr, name string) *os.File {
	syscall.CloseOnExec(int(fd))
	return os.NewFile(fd, name)
}
