// Package loopback opens adapters of examples on loopback addresses that no other program uses for RoCEv2.
package loopback

import (
	"errors"
	"net/netip"
	"syscall"
)

// Addresses at which the examples begin to look for a free one.
var (
	First  = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	Second = netip.AddrFrom4([4]byte{127, 0, 0, 2})
)

// most is the number of addresses that Open tries.
const most = 64

// Open calls open with at. If at is the zero Addr, it calls open with first and the addresses after it, until one is
// not in use, and returns that one. Other errors than EADDRINUSE are returned at once. The error of the first address
// says what can be done where there are no others, as on macOS.
func Open[T any](at, first netip.Addr, open func(netip.Addr) (T, error)) (T, netip.Addr, error) {
	if at.IsValid() {
		v, err := open(at)
		return v, at, err
	}
	var inUse error
	for at = first; ; at = at.Next() {
		v, err := open(at)
		switch {
		case errors.Is(err, syscall.EADDRINUSE) && at.As4()[3] < first.As4()[3]+most:
			if inUse == nil {
				inUse = err
			}
			continue
		case inUse != nil && err != nil:
			err = inUse
		}
		return v, at, err
	}
}
