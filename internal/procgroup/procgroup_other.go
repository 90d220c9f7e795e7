//go:build !unix

package procgroup

import "os/exec"

// Set does nothing: when the command's context ends, only the program is killed, and WaitDelay closes its pipes.
func Set(*exec.Cmd) {}
