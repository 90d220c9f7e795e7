//go:build !unix

package cli

import (
	"net"

	"ciddk/kproxy/native"
)

func listenPrivate(path string) (*net.UnixListener, error) { return native.Listen(path) }
