// Package tap has building blocks of mutants: functions that put a fault on one path of an HCA. Each returns a wrapper
// for mutant.Mutant.Wrap. A tap changes copies, so the consumer's requests stay unchanged. The exceptions are MAD and
// MADIn, which change datagrams in the consumer's memory.
//
// The functions passed to taps are called on any goroutine that calls the verb. Functions with state must synchronize
// themselves.
package tap
