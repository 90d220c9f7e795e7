package udp

import "golang.org/x/sys/windows"

const (
	errAddrInUse    = windows.WSAEADDRINUSE
	errAddrNotAvail = windows.WSAEADDRNOTAVAIL

	ipDontFragment = 14 // ws2ipdef.h, of IPPROTO_IP and IPPROTO_IPV6 alike
)

// setDontFragment makes the system set DF. Windows increments the IPv4 identification nevertheless, so peers must
// compute it.
func setDontFragment(fd uintptr, v4 bool) error {
	level := windows.IPPROTO_IP
	if !v4 {
		level = windows.IPPROTO_IPV6
	}
	return windows.SetsockoptInt(windows.Handle(fd), level, ipDontFragment, 1)
}
