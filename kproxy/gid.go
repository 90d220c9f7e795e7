package kproxy

import (
	"net/netip"

	"ciddk/ci"
)

// gidText returns a GID as an IP address.
func gidText(g ci.GID) string { return netip.AddrFrom16(g).Unmap().String() }
