// Package linktest holds what the tests of links share: a Receiver that collects packets, trains of every shape, and
// nodes, which are HCAs with a QP.
package linktest
