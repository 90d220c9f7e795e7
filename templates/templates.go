// Package templates holds the sources of the kit's templates, for ddk-validate init. See README.md.
package templates

import "embed"

// RCHCA is the folder rchca with everything below it: the driver, its device in software, their tests.
//
//go:embed all:rchca
var RCHCA embed.FS
