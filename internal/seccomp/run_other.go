//go:build !linux || !(amd64 || arm64)

package seccomp

import "errors"

// Config describes a program to run.
type Config struct {
	Socket, Root string
	Daemon       int
	Preload      string
	Path         string
	Args, Env    []string
}

// AnyOrder is the option of ASAN_OPTIONS by which other libraries may precede that of AddressSanitizer.
const AnyOrder = "verify_asan_link_order=0"

// ErrUnavailable is wrapped by errors of systems that do not permit this carrier.
var ErrUnavailable = errors.New("seccomp user notification is not available: it needs Linux on amd64 or arm64")

// Run fails with ErrUnavailable.
func Run(Config) (int, error) { return 0, ErrUnavailable }

// Main reports false.
func Main([]string) (status int, ok bool) { return 0, false }

// Check returns ErrUnavailable.
func Check() error { return ErrUnavailable }
