// Package tap holds the building blocks of mutants: functions that put a fault on one path of an HCA. Each returns a
// wrapper for mutant.Mutant.Wrap. A tap changes copies; the consumer's own requests stay as they are, except for the
// datagrams that MAD and MADIn change in the consumer's memory.
//
// Taps may be called from any goroutine that calls the verb. Functions with state synchronize themselves.
package tap
