//go:build !linux

package arena

import "runtime"

// Yield lets another goroutine run.
func Yield() { runtime.Gosched() }
