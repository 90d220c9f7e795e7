package main

import (
	mlx4userlib "ciddk/hca/mlx4/userlib"
	"ciddk/hca/reference/userlib"
	"ciddk/validate"
	"ciddk/validate/through"
)

// layers are what --through accepts.
func layers() []validate.Layer { return through.Layers(userlib.New(), mlx4userlib.New()) }
