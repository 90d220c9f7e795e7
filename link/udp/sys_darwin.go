package udp

import "golang.org/x/sys/unix"

const (
	errAddrInUse    = unix.EADDRINUSE
	errAddrNotAvail = unix.EADDRNOTAVAIL

	shownTOS    = unix.IP_RECVTOS
	shownTTL    = unix.IP_RECVTTL
	segmentType = -1 // no receive offload
	flowInfo6   = -1 // the flow label is not shown
)

// setDontFragment makes the system set DF; with it, Darwin leaves the IPv4 identification 0 (RFC 6864).
func setDontFragment(fd uintptr, v4 bool) error {
	if v4 {
		return unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_DONTFRAG, 1)
	}
	return unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_DONTFRAG, 1)
}
