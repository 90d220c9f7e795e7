//go:build !linux

package usersuite

import (
	"os"

	"ciddk/validate"
)

// descriptorKind is a descriptor that a process may send with private data.
type descriptorKind struct {
	what   string
	f      *os.File
	passes bool
}

// descriptorKinds returns nothing: the cases that use it run on Linux only.
func descriptorKinds(*validate.T) []descriptorKind { return nil }
