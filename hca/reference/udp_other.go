//go:build !linux

package reference

import "net/netip"

// osRoute: package net takes addresses as they are.
type osRoute struct{}

func compileOS(*udpRoute, int) osRoute { return osRoute{} }

func (*osRoute) setSource(netip.Addr, int) {}

func openSocket(p *udpPort, c UDPConfig) (udpSocket, error) { return openPortable(p, &c) }
