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

// carrierAuto is the carrier that ddkrun chooses by itself.
const carrierAuto = "auto"

// carriers are the values of --carrier.
var carriers = []string{carrierAuto}

var errLinux = errors.New("this program needs Linux")

// execute fails: there are verbs programs on Linux only.
func execute(string, string, string, []string) (int, error) { return 0, errLinux }

// explainTo fails for the same reason.
func explainTo(io.Writer, string, string, string, []string) error { return errLinux }
