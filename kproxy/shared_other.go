//go:build !linux

package kproxy

import (
	"errors"
	"os"
)

func mapShared(*os.File, uint64, uint64, uint64, bool) (*mapping, error) {
	return nil, errors.ErrUnsupported
}

func checkFiles(files []*os.File) error {
	if len(files) > 0 {
		return errors.ErrUnsupported
	}
	return nil
}
