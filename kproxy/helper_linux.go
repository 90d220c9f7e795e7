package kproxy

import (
	"os"

	"golang.org/x/sys/unix"

	"ciddk/internal/kproxy/schema"
)

// newHelper returns a helper and the client's end of its socket.
func newHelper() (h *helper, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	for _, fd := range fds { // one message must fit; the system's default has room for three
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 2*(schema.MaxCopy+schema.CopySize))
	}
	return &helper{file: os.NewFile(uintptr(fds[0]), "copies")}, os.NewFile(uintptr(fds[1]), "copies"), nil
}
