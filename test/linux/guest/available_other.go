//go:build !linux

package guest

import "runtime"

// Available returns an error: guests need Linux.
func Available() error {
	u := &unavailable{}
	u.add("", "the harness needs Linux on amd64, this is %s on %s", runtime.GOOS, runtime.GOARCH)
	return u
}

// AvailableVFIOUser returns an error: guests need Linux.
func AvailableVFIOUser(...string) error { return Available() }
