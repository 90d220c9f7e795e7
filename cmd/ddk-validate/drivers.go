package main

import "ciddk/validate"

// drivers are those linked into this program, the default first.
func drivers() []validate.Driver { return nil }
