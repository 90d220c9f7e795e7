//go:build !nic

package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"ciddk/accesslayer/rdmacm"
	"ciddk/softroce"
)

// open opens the adapter with a connection manager. Everything else in this program works on any adapter: with the
// build tag nic on the devices of the machine, by another constructor.
func open(ctx context.Context, o options) (*rdmacm.Manager, error) {
	addr := o.Addr
	if o.Client {
		if addr = o.From; !addr.IsValid() {
			var err error
			if addr, err = source(ctx, o.Addr); err != nil {
				return nil, err
			}
		}
	}
	return softroce.Open(addr, softroce.Config{})
}

// source returns the address from which the operating system would send to another. It connects a UDP socket, which
// sends nothing.
func source(ctx context.Context, to netip.Addr) (netip.Addr, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "udp", netip.AddrPortFrom(to, 9).String())
	if err != nil {
		return netip.Addr{}, fmt.Errorf("no route to %v: %w (-I sets the source address)", to, err)
	}
	defer c.Close()
	a, err := netip.ParseAddrPort(c.LocalAddr().String())
	if err != nil {
		return netip.Addr{}, err
	}
	if a.Addr().Unmap() == to.Unmap() {
		return netip.Addr{}, fmt.Errorf("%v is the server's address, on this machine: set another one for the client "+
			"with -I, such as 127.0.0.2", to)
	}
	return a.Addr().Unmap(), nil
}
