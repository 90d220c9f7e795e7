package main

import (
	"net/netip"

	"ciddk/examples/internal/loopback"
	"ciddk/hca/reference"
	"ciddk/link/udp"
	"ciddk/rvt"
)

// openHCA opens the adapter and sets o.Addr to its address. Everything else in this program uses package ci only, and
// works on any adapter.
func openHCA(o *options, i *impairment) (adapter, error) {
	first := loopback.First
	if o.Host != "" {
		first = loopback.Second
	}
	socket, addr, err := loopback.Open(o.Addr, first, func(a netip.Addr) (*udp.Port, error) {
		return udp.New(udp.Config{Addr: a, Privileged: o.Privileged, SourcePorts: o.Sources, StrictSource: o.Strict})
	})
	if err != nil {
		return nil, err
	}
	o.Addr = addr
	port, err := i.wrap(socket, *o)
	if err != nil {
		return nil, err
	}
	return reference.New(reference.Config{Ports: []rvt.Port{port}})
}
