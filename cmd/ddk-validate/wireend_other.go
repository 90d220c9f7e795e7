//go:build !linux

package main

import (
	"errors"
	"net"
)

// dontFragment says that the end cannot be had: beside Linux, loopback has one address, and the adapter has it.
func dontFragment(*net.UDPConn) error {
	return errors.New("an end of the link needs a second loopback address, which Linux alone has without setup")
}
