//go:build !linux

package kproxy

import (
	"encoding/binary"
	"errors"

	"ciddk/ci"
)

// Traced calls f.
func Traced(f func()) { f() }

var hostOrder = binary.NativeEndian

// processReach reaches no process on this system.
type processReach struct{}

func (*processReach) open(int, int) {}

func (*processReach) useKernelChecks() {}

func (*processReach) close() {}

func (*processReach) hasExited() bool { return false }

func (*processReach) abort() error { return errStuck }

func (*processReach) read([]byte, place) (int, error) { return 0, errors.ErrUnsupported }

func (*processReach) write([]byte, place) (int, error) { return 0, errors.ErrUnsupported }

func (*processReach) copySpans([]ci.Span, bool) (int, error) { return 0, errors.ErrUnsupported }

func (*processReach) check(uint64, uint64, bool) (bool, error) {
	return false, errors.ErrUnsupported
}

func explainCopy(err error) error { return err }
