package usb

import (
	"errors"
	"fmt"
)

// An Info is an adapter on the USB.
type Info struct {
	Bus, Address int
}

// String returns "bus:address".
func (i Info) String() string { return fmt.Sprintf("%d:%d", i.Bus, i.Address) }

// Errors.
var (
	// ErrNotBuilt is returned by the default build. It wraps errors.ErrUnsupported.
	ErrNotBuilt = fmt.Errorf("built without USB; rebuild with CGO_ENABLED=1 go build -tags usb, which needs libusb "+
		"(Debian: libusb-1.0-0-dev and pkg-config): %w", errors.ErrUnsupported)
	// ErrNotFound is returned if there is no such adapter.
	ErrNotFound = errors.New("no such adapter on the USB")
	// ErrAccess is returned if the process may not open the adapter.
	ErrAccess = errors.New("no access to the adapter (run as root, or add a udev rule for 0abf:3370)")
	// ErrBusy is returned if another process uses the adapter.
	ErrBusy = errors.New("another process uses the adapter")
)
