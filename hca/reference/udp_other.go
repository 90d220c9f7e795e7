//go:build !linux

package reference

// osRoute: package net takes addresses as they are.
type osRoute struct{}

func compileOS(*udpRoute, int) osRoute { return osRoute{} }

func openSocket(p *udpPort, c UDPConfig) (udpSocket, error) { return openPortable(p, &c) }
