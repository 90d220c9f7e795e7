//go:build !linux

package bench

// VerbsCases returns none: ddkrun needs Linux.
func VerbsCases() []Case { return nil }

// IsDDKRun reports false.
func IsDDKRun() bool { return false }

// RunDDKRun is not called.
func RunDDKRun() int { return 1 }

// MissingPerftest returns the reason why the cases of unmodified verbs programs cannot run.
func MissingPerftest() string { return "unmodified verbs programs are measured on Linux only" }
