//go:build !linux

package cli

import (
	"errors"
	"io"
)

// daemonArg is the argument with which ddkrun runs as the daemon of a user.
const daemonArg = "-daemon"

// errProgram is wrapped by errors of the program that was to be started.
var errProgram = errors.New("the program cannot be started")

var errLinux = errors.New("this program needs Linux")

// execute fails: there are verbs programs on Linux only.
func execute(string, []string) error { return errLinux }

// explainTo fails for the same reason.
func explainTo(io.Writer, string) error { return errLinux }
