//go:build !linux

package guest

import "runtime"

// Available tells why guests cannot run here: they need Linux.
func Available() error {
	u := &unavailable{}
	u.add("", "the harness needs Linux on amd64, this is %s on %s", runtime.GOOS, runtime.GOARCH)
	return u
}
