//go:build !linux

package udp

import "errors"

// watchAddresses is not supported: the port reads the addresses every second.
func watchAddresses(func()) (stop func(), err error) { return nil, errors.ErrUnsupported }
