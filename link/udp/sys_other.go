//go:build !linux && !darwin && !windows

package udp

import "syscall"

const (
	errAddrInUse    = syscall.EADDRINUSE
	errAddrNotAvail = syscall.EADDRNOTAVAIL
)

// setDontFragment does nothing, because other systems share no option. Peers must compute the identification.
func setDontFragment(uintptr, bool) error { return nil }
