//go:build !linux

package main

import "errors"

// netspace is implemented on Linux only.
type netspace struct{}

func space6() (*netspace, error) { return nil, errors.New("this system has no network namespaces") }

func (*netspace) do(f func() error) error { return f() }
