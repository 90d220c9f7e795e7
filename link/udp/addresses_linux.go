package udp

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// watchAddresses calls changed after each report of the kernel about addresses and interfaces (rtnetlink(7)). The end
// of the duplicate address detection of an IPv6 address is such a report; no socket can be bound to the address before.
func watchAddresses(changed func()) (stop func(), err error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("netlink socket: %w", err)
	}
	groups := uint32(unix.RTMGRP_IPV4_IFADDR | unix.RTMGRP_IPV6_IFADDR | unix.RTMGRP_LINK)
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: groups}); err != nil {
		return nil, errors.Join(fmt.Errorf("netlink socket: bind: %w", err), unix.Close(fd))
	}
	f := os.NewFile(uintptr(fd), "netlink")
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1<<14)
		for {
			// The content does not matter, because the addresses are read again. ENOBUFS means that reports were lost.
			_, err := f.Read(buf)
			if err != nil && !errors.Is(err, unix.ENOBUFS) {
				return // closed
			}
			changed()
		}
	}()
	return func() {
		_ = f.Close()
		<-done
	}, nil
}
