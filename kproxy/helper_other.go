//go:build !linux

package kproxy

import (
	"errors"
	"os"
)

// newHelper fails: clients need Linux.
func newHelper() (*helper, *os.File, error) { return nil, nil, errors.ErrUnsupported }
