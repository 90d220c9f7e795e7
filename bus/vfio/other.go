//go:build !linux

package vfio

import (
	"errors"
	"fmt"

	"ciddk/bus"
)

// Function is a PCI function of this machine. It needs Linux.
type Function struct{ bus.Function }

// Open needs Linux.
func Open(string) (*Function, error) {
	return nil, fmt.Errorf("vfio: needs Linux: %w", errors.ErrUnsupported)
}
