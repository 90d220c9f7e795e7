//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// group puts the program into a process group of its own, so that a time limit kills its children, too.
func group(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
}
