//go:build !linux

package devices

import (
	"errors"
	"net"

	"ciddk/clock"
)

// A Server serves connections of carriers. It needs Linux.
type Server struct{}

// New returns a server that serves nothing.
func New(FrontEnd, int, clock.Clock) *Server { return new(Server) }

// Serve fails with errors.ErrUnsupported.
func (*Server) Serve(*net.UnixListener) error { return errors.ErrUnsupported }

// Close does nothing.
func (*Server) Close() {}

// IsIdle returns true.
func (*Server) IsIdle() bool { return true }

// Retire calls isIdle.
func (*Server) Retire(isIdle func() bool) bool { return isIdle() }
