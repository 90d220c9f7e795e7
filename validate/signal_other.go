//go:build !unix

package validate

import "os"

// askForStacks is not possible here: there is no signal that makes a Go program print its goroutines.
func askForStacks(*os.Process) bool { return false }
