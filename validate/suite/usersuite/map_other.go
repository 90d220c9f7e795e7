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

// mapPages fails, as mapFile does.
func mapPages(int) (b []byte, protect func(page int, inaccessible bool) error, unmap func(), err error) {
	return nil, nil, nil, errors.ErrUnsupported
}

// usedParts fails, as mapFile does.
func usedParts(*os.File, int) ([][2]int, error) { return nil, errors.ErrUnsupported }

// duplicated fails, as mapFile does.
func duplicated(*os.File) (*os.File, error) { return nil, errors.ErrUnsupported }
