//go:build !unix

package validate

import (
	"os"
	"os/exec"
)

// ownGroup does nothing: there are no process groups that can be killed here.
func ownGroup(*exec.Cmd) {}

// killGroup kills the process.
func killGroup(p *os.Process) { _ = p.Kill() } // it may have ended

// askForStacks is not possible here: there is no signal that makes a Go program print its goroutines.
func askForStacks(*os.Process) bool { return false }
