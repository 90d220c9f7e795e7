// Package testenv describes the environment of tests: addresses, virtual machines, the race detector, the part of a
// matrix to run. It also runs helpers of tests that may fail or skip (Try). Package tsharktest checks packets.
package testenv

import (
	"errors"
	"net"
	"strconv"
	"syscall"
	"testing"
)

// RoCEv2Port is the UDP port that the examples use (IBTA annex A17). Tests of packages use ports of their own.
const RoCEv2Port = 4791

// wsaEADDRINUSE is the error of Windows that corresponds to EADDRINUSE. Package syscall does not treat them as equal.
const wsaEADDRINUSE = syscall.Errno(10048)

// Addresses skips the test if this machine lacks one of the IP addresses: macOS has only 127.0.0.1 of 127/8, and some
// containers have no ::1. The test fails if an address's UDP port is in use: by another run of the test, or by a
// program that an earlier test left behind.
func Addresses(t testing.TB, port int, addresses ...string) {
	t.Helper()
	for _, a := range addresses {
		c, err := net.ListenPacket("udp", net.JoinHostPort(a, strconv.Itoa(port)))
		switch {
		case errors.Is(err, syscall.EADDRINUSE), errors.Is(err, wsaEADDRINUSE):
			t.Fatalf("the address that this test needs is in use: %v", err)
		case err != nil:
			t.Skipf("this test needs the address %s: %v", a, err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
