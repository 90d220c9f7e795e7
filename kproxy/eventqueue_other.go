//go:build !linux

package kproxy

import (
	"errors"
	"os"

	"ciddk/kproxy/schema"
)

// open fails: event queues need Linux.
func (*eventQueue) open() (*os.File, error) { return nil, errors.ErrUnsupported }

// sendEvent is not reached, since open fails.
func sendEvent(uintptr, *schema.Event) bool { return false }
