package main

import (
	"ciddk/hca/reference"
	"ciddk/link/udp"
	"ciddk/rvt"
)

// openHCA makes the adapter. All else in this program is ci, and would run on any other.
func openHCA(o options, w *weather) (adapter, error) {
	socket, err := udp.New(udp.Config{Addr: o.Addr, Privileged: o.Privileged, SourcePorts: o.Sources, StrictSource: o.Strict})
	if err != nil {
		return nil, err
	}
	port, err := w.over(socket, o)
	if err != nil {
		return nil, err
	}
	return reference.New(reference.Config{Ports: []rvt.Port{port}})
}
