//go:build !linux

package main

import (
	"errors"
	"net/netip"
)

// netspace is for Linux alone.
type netspace struct{}

func newNetspace(...netip.Addr) (*netspace, error) {
	return nil, errors.New("network namespaces are of Linux")
}

func (*netspace) do(f func() error) error { return f() }

func (*netspace) close() {}
