//go:build !linux

package udpend

import (
	"errors"
	"net"
	"net/netip"
)

// dontFragment returns an error, because loopback has only one address on this system, and the adapter uses it.
func dontFragment(*net.UDPConn) error {
	return errors.New(
		"the certifier's end of the link needs a second loopback address, which only Linux has by default",
	)
}

// showFields returns false for each field.
func showFields(*net.UDPConn, bool) (class, hops, label bool, err error) {
	return false, false, false, nil
}

// sentClass returns nil: the class of packets is that of the system.
func sentClass([]byte) []byte { return nil }

func shownFields([]byte) fields { return fields{} }

// rawHeaders is implemented on Linux only.
type rawHeaders struct{}

func openRawHeaders(netip.Addr, uint16) (*rawHeaders, error) {
	return nil, errors.New("--set privileged=1: this needs Linux")
}

func (*rawHeaders) of(whole []byte) ([]byte, error) { return whole, nil }

func (*rawHeaders) close() error { return nil }

// InNetwork returns an error: this system has no network namespaces.
func InNetwork(string) (func(func() error) error, error) {
	return nil, errors.New("this system has no network namespaces")
}
