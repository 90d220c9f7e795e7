package main

import (
	"ciddk/cmd/ddk-validate/cli"
	"ciddk/cmd/ddk-validate/through"
	"ciddk/hca/reference/userlib"
	"ciddk/validate"
)

// layers are what --through accepts.
func layers() []cli.Layer {
	return []cli.Layer{
		{Name: "accesslayer", Description: "the access layer: its objects are certified on top of the driver",
			Over: through.AccessLayer},
		{Name: "user", Description: "a daemon in another process: package ual is certified on top of the driver",
			Over: func(d validate.Driver) validate.Driver { return through.User(d) }},
		{Name: "bypass", Description: "the same with the reference HCA's user library, whose queues are shared memory",
			Over: func(d validate.Driver) validate.Driver { return through.User(d, userlib.New()) }},
	}
}
