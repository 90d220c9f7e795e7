//go:build !linux

package usersuite

import (
	"errors"
	"os"
)

// mapFile fails: the cases run on Linux only.
func mapFile(*os.File, int) (b []byte, unmap func(), err error) {
	return nil, nil, errors.ErrUnsupported
}
