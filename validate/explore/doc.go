// Package explore drives a driver and the reference model (package model) with the same sequence of verbs, and compares
// them after each step: statuses, completions with every field, events, callbacks, attributes, counters, and every byte
// of the memory of both adapters.
//
// The first traces are rows of a covering array (Config.Rows): messages over new connections, in which every pair of
// levels of the factors of a row meets, such as an operation and a fault. The others are random.
//
// A Trace is a list of steps. Each is a value of a type with exported fields, such as Send or Resize, so that a trace
// is printed as a story for people and as a Go program (Program), and runs again with Replay. A failure is shrunk:
// steps are left out and numbers made small while the same rule is broken.
//
// Steps refer to objects by the numbers that the trace gives them. A step whose objects do not exist is skipped.
package explore
