//go:build !linux

package qemu

import (
	"fmt"
	"runtime"
)

// Find returns an error: guests need Linux.
func Find() (*Program, error) {
	return nil, fmt.Errorf("qemu: needs Linux on amd64, this is %s on %s", runtime.GOOS, runtime.GOARCH)
}
