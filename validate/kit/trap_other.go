//go:build !linux || !(amd64 || arm64 || riscv64 || loong64)

package kit

import "errors"

// Trap is a page of memory whose stores wait for a handler. This system does not support it.
type Trap struct{ Bytes, Host []byte }

// NewTrap returns an error.
func NewTrap(func()) (*Trap, error) { return nil, errors.New("no trap for stores on this system") }

// Set does nothing.
func (t *Trap) Set() error { return nil }

// Close does nothing.
func (t *Trap) Close() error { return nil }
