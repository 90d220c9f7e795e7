//go:build !linux

package main

import "errors"

// netspace is for Linux alone.
type netspace struct{}

func space6() (*netspace, error) { return nil, errors.New("network namespaces are of Linux") }

func (*netspace) do(f func() error) error { return f() }
