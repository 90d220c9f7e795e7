//go:build !linux

package usersuite

import (
	"errors"
	"net"
	"os"

	"ciddk/kproxy/native"
	"ciddk/validate"
)

// The cases that use these run on Linux only.

func descriptorLimit(*validate.T) int { return 0 }

// descriptorShare returns the number of descriptors for clients.
func descriptorShare(*validate.T) int { return 0 }

type exhaustion struct{}

func exhausted(*validate.T) *exhaustion { return nil }

func (*exhaustion) end() {}

type dial struct{ listener *net.UnixListener }

func newDial(*validate.T) *dial { return new(dial) }

func (*dial) connect() error { return errors.ErrUnsupported }

func (*dial) conn() *native.Conn { return nil }

func socketPair() (a, b *os.File, err error) { return nil, nil, errors.ErrUnsupported }
