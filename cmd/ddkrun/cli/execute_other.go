//go:build !linux

package cli

import (
	"errors"
	"io"
)

// errProgram is wrapped by errors of the program that was to be started.
var errProgram = errors.New("the program cannot be started")

// carrierAuto is the carrier that ddkrun chooses by itself.
const carrierAuto = "auto"

// carriers are the values of --carrier.
var carriers = []string{carrierAuto}

var errLinux = errors.New("this program needs Linux")

// execute fails: there are verbs programs on Linux only.
func execute(options, []string) (int, error) { return 0, errLinux }

// explainTo fails for the same reason.
func explainTo(io.Writer, options, []string) error { return errLinux }

// installTo fails, too.
func installTo(io.Writer, options) error { return errLinux }

// stopDaemon fails, too.
func stopDaemon() error { return errLinux }

// mainOfProcess reports false: ddkrun starts no process.
func mainOfProcess([]string) (status int, ok bool) { return 0, false }
