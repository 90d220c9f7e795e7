//go:build unix

package validate

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup makes a command the leader of a process group of its own: it can be killed with all that it starts, and an interrupt from the
// terminal reaches the parent alone, which decides what it means.
func ownGroup(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
}

// killGroup kills a process and its group. The process must not have been waited for: its number could be another's by then.
func killGroup(p *os.Process) {
	_ = syscall.Kill(-p.Pid, syscall.SIGKILL) // the group may be empty but for a process that has ended
	_ = p.Kill()                              // one that has left its group, or has ended
}

// askForStacks makes the Go runtime of the process print all goroutines and end.
func askForStacks(p *os.Process) bool { return p.Signal(syscall.SIGQUIT) == nil }
