//go:build unix

package procgroup

import (
	"os/exec"
	"syscall"
)

// Set makes the program the leader of a new process group. When the command's context ends, the whole group is killed.
func Set(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
}
