package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"ciddk/accesslayer"
	"ciddk/accesslayer/rdmacm"
	"ciddk/hca/reference"
)

// open makes the adapter, gives it to an access layer, and starts RDMA CM. All else in this program would run on any other adapter.
func open(ctx context.Context, o options) (m *rdmacm.Manager, closeAll func() error, err error) {
	var undo []func() error
	closeAll = func() error {
		var errs []error
		for _, f := range slices.Backward(undo) {
			errs = append(errs, f())
		}
		return errors.Join(errs...)
	}
	fail := func(err error) (*rdmacm.Manager, func() error, error) {
		return nil, nil, errors.Join(err, closeAll())
	}
	addr := o.Addr
	if o.Client {
		if addr = o.From; !addr.IsValid() {
			if addr, err = source(ctx, o.Addr); err != nil {
				return nil, nil, err
			}
		}
	}
	hca, err := reference.New(reference.Config{Ports: []reference.PortConfig{reference.UDP(reference.UDPConfig{Addr: addr})}})
	if err != nil {
		return nil, nil, err
	}
	undo = append(undo, hca.Close)
	al := accesslayer.New(accesslayer.Config{})
	undo = append(undo, al.Close)
	if err := al.Register(hca); err != nil {
		return fail(err)
	}
	if m, err = rdmacm.Open(al); err != nil {
		return fail(err)
	}
	undo = append(undo, m.Close)
	return m, closeAll, nil
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
