// Package testenv is what tests ask about where they run, and how they try out a helper that fails or skips the test
// that calls it. Package tsharktest has the helpers for judging packets.
package testenv

import (
	"errors"
	"net"
	"strconv"
	"syscall"
	"testing"
)

// RoCEv2Port is the UDP port that the examples use (IBTA annex A17); tests of packages take one of their own.
const RoCEv2Port = 4791

// wsaEADDRINUSE is what Windows says for EADDRINUSE, which package syscall does not take for the same.
const wsaEADDRINUSE = syscall.Errno(10048)

// Addresses skips the test where this machine lacks one of the IP addresses: only 127.0.0.1 of 127/8 is there on macOS,
// and no ::1 in some containers. An address whose UDP port is taken fails the test: it is another run of it, or a
// program that an earlier test left behind.
func Addresses(t testing.TB, port int, addresses ...string) {
	t.Helper()
	for _, a := range addresses {
		c, err := net.ListenPacket("udp", net.JoinHostPort(a, strconv.Itoa(port)))
		switch {
		case errors.Is(err, syscall.EADDRINUSE), errors.Is(err, wsaEADDRINUSE):
			t.Fatalf("somebody has the address that this test needs: %v", err)
		case err != nil:
			t.Skipf("this test needs the address %s: %v", a, err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
