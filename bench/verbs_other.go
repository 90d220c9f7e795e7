//go:build !linux

package bench

// VerbsCases returns none: ddkrun needs Linux.
func VerbsCases() []Case { return nil }

// isDDKRun reports false.
func isDDKRun() bool { return false }

// runDDKRun is not called.
func runDDKRun() int { return 1 }

// MissingPerftest returns the reason why the cases of unmodified verbs programs cannot run.
func MissingPerftest() string { return "unmodified verbs programs are measured on Linux only" }
