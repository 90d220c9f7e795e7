package main

import (
	"net/netip"

	"ciddk/hca/reference"
)

// openHCA makes the adapter. All else in this program is ci, and would run on any other.
func openHCA(addr netip.Addr) (adapter, error) {
	return reference.New(reference.Config{Ports: []reference.PortConfig{reference.UDP(reference.UDPConfig{Addr: addr})}})
}
