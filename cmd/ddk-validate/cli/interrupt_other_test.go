//go:build !unix

package cli_test

import "ciddk/validate"

// stubborn is for systems with signals.
func stubborn() []validate.Driver { return nil }
