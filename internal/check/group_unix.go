//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// group returns the program a process group of its own, so that a time limit ends its children as well.
func group(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
}
