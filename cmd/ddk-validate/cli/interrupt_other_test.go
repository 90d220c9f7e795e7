//go:build !unix

package cli_test

import "ciddk/validate"

// stubborn returns nil, because the driver needs signals.
func stubborn() []validate.Driver { return nil }
