package private

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// CheckPeer returns an error if the process that listens at the other end of a Unix socket belongs to another user than
// this one or root.
func CheckPeer(c net.Conn) error {
	s, ok := c.(syscall.Conn)
	if !ok {
		return fmt.Errorf("%T has no peer: %w", c, errors.ErrUnsupported)
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	if e := raw.Control(func(fd uintptr) {
		peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); e != nil {
		return e
	}
	if err != nil {
		return fmt.Errorf("SO_PEERCRED: %w", err)
	}
	return CheckUser(int(peer.Uid))
}
