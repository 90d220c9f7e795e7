//go:build nic

package main

import (
	"context"

	"ciddk/accesslayer/rdmacm"
	"ciddk/kernelcm"
)

// open opens the RDMA devices of the machine, with the connection manager of the kernel.
func open(context.Context, options) (*rdmacm.Manager, error) { return kernelcm.Open(kernelcm.Config{}) }
