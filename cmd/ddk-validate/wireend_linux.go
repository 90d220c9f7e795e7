package main

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// dontFragment has the system set DF and leave the identification of each packet 0, which the ICRC that the certifier computes covers.
func dontFragment(c *net.UDPConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var in error
	err = raw.Control(func(fd uintptr) {
		in = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
	})
	return errors.Join(err, in)
}
