// Package mads gives MAD services: who wants to send and receive management datagrams registers an agent on a port, and shares the
// port's QP1, or QP0, with the others.
package mads
