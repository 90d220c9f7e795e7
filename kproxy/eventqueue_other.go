//go:build !linux

package kproxy

import (
	"errors"
	"os"
)

// open fails: event queues need Linux.
func (*eventQueue) open() (*os.File, error) { return nil, errors.ErrUnsupported }

// sendEvent is not reached, since open fails.
func sendEvent(uintptr, []byte) bool { return false }

// keep is not reached.
func (*eventQueue) keep(*os.File) error { return errors.ErrUnsupported }

// hold is not reached.
func (*eventQueue) hold(*os.File) error { return errors.ErrUnsupported }

// isAbandoned is not reached.
func (*eventQueue) isAbandoned() bool { return false }

// takeBack is not reached.
func (*eventQueue) takeBack(uint64) uint64 { return 0 }
