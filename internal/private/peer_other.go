//go:build !linux

package private

import "net"

// CheckPeer returns nil: only Linux has it.
func CheckPeer(net.Conn) error { return nil }
