//go:build !linux || !(amd64 || arm64)

package kernelcm

import (
	"errors"

	"ciddk/accesslayer/rdmacm"
)

// Open returns errors.ErrUnsupported.
func Open(Config) (*rdmacm.Manager, error) { return nil, errors.ErrUnsupported }
