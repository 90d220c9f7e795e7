//go:build !linux

package bench

// UserCases returns none: this system has no memory to share with a daemon.
func UserCases() []Case { return nil }

// MissingUCX returns the reason why there are no figures of UCX.
func MissingUCX() string { return "UCX over shared memory is measured on Linux only" }
