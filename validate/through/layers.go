package through

import (
	"ciddk/ci"
	"ciddk/validate"
)

// Layers returns what --through accepts: accesslayer, user, copies and, if there are user libraries, bypass.
func Layers(libs ...*ci.UserLibrary) []validate.Layer {
	list := []validate.Layer{
		{Name: "accesslayer", Description: "the access layer: its objects are certified on top of the driver",
			Over: AccessLayer},
		{Name: "user", Description: "a daemon in another process: package ual is certified on top of the driver",
			Over: func(d validate.Driver) validate.Driver { return User(d) }},
		{Name: "copies", Description: "the same, and the application copies its memory for the daemon", Over: Copies},
	}
	if len(libs) == 0 {
		return list
	}
	return append(list, validate.Layer{Name: "bypass", Description: "the same with the driver's user library",
		Over: func(d validate.Driver) validate.Driver { return User(d, libs...) }})
}
