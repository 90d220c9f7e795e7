//go:build !unix

package cli

import "errors"

// replace returns an error: the system cannot replace a program by another one.
func replace(string, []string) error { return errors.ErrUnsupported }
