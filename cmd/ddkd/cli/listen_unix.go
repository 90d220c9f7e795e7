//go:build unix

package cli

import (
	"net"
	"syscall"

	"ciddk/kproxy/native"
)

// listenPrivate creates the socket so that only this user can connect until its mode is set.
func listenPrivate(path string) (*net.UnixListener, error) {
	old := syscall.Umask(0o177)
	defer syscall.Umask(old)
	return native.Listen(path)
}
