//go:build !linux

package ibsim

import (
	"errors"
	"net"

	"ciddk/clock"
)

// socket is not available on this system, which has no abstract sockets.
type socket struct{ *net.UnixConn }

var (
	errSystem    = errors.New("management programs connect over abstract sockets, which only Linux has")
	errOtherUser = errSystem
)

func listen(*net.UnixAddr, clock.Clock) (*socket, error) { return nil, errSystem }

func (*socket) connect(*net.UnixAddr) error { return errSystem }

func (*socket) receive([]byte) (int, *net.UnixAddr, error) { return 0, nil, errSystem }
