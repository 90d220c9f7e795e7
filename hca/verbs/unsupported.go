//go:build !linux || !(amd64 || arm64)

package verbs

import (
	"errors"
	"fmt"
	"runtime"

	"ciddk/ci"
)

// HCA is a device of this machine.
type HCA struct{ ci.HCA }

var errPlatform = fmt.Errorf("verbs: libibverbs on %s/%s: %w", runtime.GOOS, runtime.GOARCH, errors.ErrUnsupported)

// Devices returns an error that is errors.ErrUnsupported.
func Devices() ([]string, error) { return nil, errPlatform }

// Open returns an error that is errors.ErrUnsupported.
func Open(Config) (*HCA, error) { return nil, errPlatform }

// Close does nothing.
func (*HCA) Close() error { return nil }

// Live returns nil.
func (*HCA) Live() map[string]int { return nil }

// Version returns "".
func (*HCA) Version() string { return "" }
