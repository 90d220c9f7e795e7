package through

import (
	"ciddk/ci"
	"ciddk/cmd/ddk-validate/cli"
	"ciddk/validate"
)

// Layers returns what --through accepts: accesslayer, user and, if there are user libraries, bypass.
func Layers(libs ...*ci.UserLibrary) []cli.Layer {
	list := []cli.Layer{
		{Name: "accesslayer", Description: "the access layer: its objects are certified on top of the driver",
			Over: AccessLayer},
		{Name: "user", Description: "a daemon in another process: package ual is certified on top of the driver",
			Over: func(d validate.Driver) validate.Driver { return User(d) }},
	}
	if len(libs) == 0 {
		return list
	}
	return append(list, cli.Layer{Name: "bypass", Description: "the same with the driver's user library",
		Over: func(d validate.Driver) validate.Driver { return User(d, libs...) }})
}
