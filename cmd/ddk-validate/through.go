package main

import (
	"ciddk/cmd/ddk-validate/cli"
	"ciddk/cmd/ddk-validate/through"
	mlx4userlib "ciddk/hca/mlx4/userlib"
	"ciddk/hca/reference/userlib"
)

// layers are what --through accepts.
func layers() []cli.Layer { return through.Layers(userlib.New(), mlx4userlib.New()) }
