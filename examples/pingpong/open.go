package main

import "ciddk/hca/reference"

// openHCA makes the adapter. All else in this program is ci, and would run on any other.
func openHCA(o options, w *weather) (adapter, error) {
	port := w.over(reference.UDP(reference.UDPConfig{Addr: o.Addr, Privileged: o.Privileged, SourcePorts: o.Sources,
		StrictSource: o.Strict}), o)
	return reference.New(reference.Config{Ports: []reference.PortConfig{port}})
}
