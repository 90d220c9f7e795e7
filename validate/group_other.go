//go:build !unix

package validate

import (
	"os"
	"os/exec"
)

// ownGroup does nothing: this system has no process groups that can be killed.
func ownGroup(*exec.Cmd) {}

// killGroup kills the process.
func killGroup(p *os.Process) { _ = p.Kill() } // it may have ended

// requestStacks returns false: this system has no signal that makes a Go program print its goroutines.
func requestStacks(*os.Process) bool { return false }
