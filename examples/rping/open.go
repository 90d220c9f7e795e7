package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"ciddk/accesslayer/rdmacm"
	"ciddk/softroce"
)

// open opens the adapter with a connection manager. All else in this program would run on any other adapter (rdmacm.OpenHCA).
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

// source is the address from which the operating system would send to another: that of a connected UDP socket, over which nothing goes.
func source(ctx context.Context, to netip.Addr) (netip.Addr, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "udp", netip.AddrPortFrom(to, 9).String())
	if err != nil {
		return netip.Addr{}, fmt.Errorf("no way to %v: %w; -I says where to send from", to, err)
	}
	defer c.Close()
	a, err := netip.ParseAddrPort(c.LocalAddr().String())
	if err != nil {
		return netip.Addr{}, err
	}
	if a.Addr().Unmap() == to.Unmap() {
		return netip.Addr{}, fmt.Errorf("%v is this machine's, and the server's: -I gives our end another address, 127.0.0.2 for one", to)
	}
	return a.Addr().Unmap(), nil
}
