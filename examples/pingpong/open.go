package main

import (
	"ciddk/hca/reference"
	"ciddk/link/udp"
	"ciddk/rvt"
)

// openHCA opens the adapter. Everything else in this program uses package ci only, and works on any adapter.
func openHCA(o options, i *impairment) (adapter, error) {
	socket, err := udp.New(udp.Config{Addr: o.Addr, Privileged: o.Privileged, SourcePorts: o.Sources,
		StrictSource: o.Strict})
	if err != nil {
		return nil, err
	}
	port, err := i.wrap(socket, o)
	if err != nil {
		return nil, err
	}
	return reference.New(reference.Config{Ports: []rvt.Port{port}})
}
