//go:build !linux && !darwin && !windows

package udp

import "syscall"

const (
	errAddrInUse    = syscall.EADDRINUSE
	errAddrNotAvail = syscall.EADDRNOTAVAIL
)

// setDontFragment: no option that all other systems share; peers must solve for the identification.
func setDontFragment(uintptr, bool) error { return nil }
