//go:build !linux

package ual

import (
	"errors"
	"os"
)

func newShared(int) (*os.File, []byte, error) { return nil, nil, errors.ErrUnsupported }

func unmap([]byte) error { return errors.ErrUnsupported }

// permitCopies does nothing: there are no connections on this system.
func permitCopies(int) {}
