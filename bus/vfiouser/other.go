//go:build !linux

package vfiouser

import (
	"context"
	"errors"
	"fmt"
	"net"

	"ciddk/bus"
)

var errSystem = fmt.Errorf("vfiouser: needs Linux: %w", errors.ErrUnsupported)

// Listen needs Linux.
func Listen(string) (*net.UnixListener, error) { return nil, errSystem }

// Serve needs Linux.
func Serve(context.Context, *net.UnixListener, bus.Device, Config) error { return errSystem }

// Function is a function at the other end of a socket. It needs Linux.
type Function struct{ bus.Function }

// Dial needs Linux.
func Dial(context.Context, string) (*Function, error) { return nil, errSystem }
