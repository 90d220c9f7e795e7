//go:build !unix

package arena

import (
	"errors"
	"os"
)

// duplicate fails with errors.ErrUnsupported.
func duplicate(*os.File) (*os.File, error) { return nil, errors.ErrUnsupported }
