//go:build !linux

package udp

import "errors"

// watchAddresses is not supported: the port looks every second.
func watchAddresses(func()) (stop func(), err error) { return nil, errors.ErrUnsupported }
