//go:build !linux

package main

import (
	"errors"
	"net"
	"net/netip"
)

// dontFragment returns an error: except on Linux, loopback has one address, which the adapter uses.
func dontFragment(*net.UDPConn) error {
	return errors.New("an end of the link needs a second loopback address, which Linux alone has without setup")
}

// showFields: nothing of the IP header shows.
func showFields(*net.UDPConn, bool) (class, hops, label bool, err error) {
	return false, false, false, nil
}

func shownFields([]byte) fields { return fields{} }

// rawHeaders is for Linux alone.
type rawHeaders struct{}

func openRawHeaders(netip.Addr, uint16) (*rawHeaders, error) {
	return nil, errors.New("--set privileged=1: only Linux shows IP headers")
}

func (*rawHeaders) of(whole []byte) ([]byte, error) { return whole, nil }

func (*rawHeaders) close() error { return nil }
