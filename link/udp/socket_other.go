//go:build !linux

package udp

import "ciddk/link/internal/rocev2"

// compileRoute returns nil, because package net takes addresses as they are.
func compileRoute(*rocev2.Port) func(*rocev2.Route, bool) any { return nil }

func openSocket(p *rocev2.Port, c *Config) (rocev2.Socket, error) { return openPortable(p, c) }

// Drive implements rvt.Driver. It does nothing: with package net the port's goroutine receives.
func (p *Port) Drive() int { return 0 }

// Attend implements rvt.Driver.
func (p *Port) Attend() {}
