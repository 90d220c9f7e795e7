//go:build !linux

package frame

import (
	"errors"
	"fmt"
)

// OpenTAP returns an error: it needs Linux.
func OpenTAP(name string) (Carrier, error) {
	return nil, fmt.Errorf("frame: TAP device %q: %w: TAP devices need Linux", name, errors.ErrUnsupported)
}
