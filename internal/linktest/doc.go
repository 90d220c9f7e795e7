// Package linktest has what the tests of links share: a Receiver that collects packets, trains of every shape, and
// nodes: HCAs with a queue pair.
package linktest
