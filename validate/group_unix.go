//go:build unix

package validate

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup makes a command the leader of a new process group. It can then be killed together with all processes that it
// starts, and an interrupt from the terminal reaches only the parent.
func ownGroup(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
}

// killGroup kills a process and its group. The process must not have been waited for, because its id could have been
// reused.
func killGroup(p *os.Process) {
	_ = syscall.Kill(-p.Pid, syscall.SIGKILL) // fails if only a process that has ended is left in the group
	_ = p.Kill()                              // a process may have left its group, or have ended
}

// requestStacks makes the Go runtime of the process print all goroutines and exit. It reports whether the signal was
// sent.
func requestStacks(p *os.Process) bool { return p.Signal(syscall.SIGQUIT) == nil }
