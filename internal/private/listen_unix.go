//go:build unix

package private

import (
	"net"
	"syscall"
)

// Listen listens on a Unix socket, to which nobody else can connect from the beginning on.
func Listen(network, path string) (*net.UnixListener, error) {
	old := syscall.Umask(0o177)
	defer syscall.Umask(old)
	return net.ListenUnix(network, &net.UnixAddr{Name: path, Net: network})
}
