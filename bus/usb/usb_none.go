//go:build !usb || !cgo

package usb

import (
	"context"
	"fmt"

	"ciddk/bus/usb/u2c"
)

// List returns the adapters on the USB, in the order of bus and address.
func List() ([]Info, error) { return nil, fmt.Errorf("usb.List: %w", ErrNotBuilt) }

// Open claims an adapter.
func Open(context.Context, Info) (u2c.Pipe, error) {
	return nil, fmt.Errorf("usb.Open: %w", ErrNotBuilt)
}
