//go:build !unix

package private

import "net"

// Listen listens on a Unix socket.
func Listen(network, path string) (*net.UnixListener, error) {
	return net.ListenUnix(network, &net.UnixAddr{Name: path, Net: network})
}
