//go:build !linux

package chaos

// overwrittenRings does nothing: this system lacks the shared memory that it needs.
func (w *world) overwrittenRings() error {
	w.tally.add("rounds without overwritten rings: not Linux", 1)
	return nil
}

// foreignMemory returns n bytes of the Go heap on this system.
func foreignMemory(n int) ([]byte, func() error, error) {
	return make([]byte, n), func() error { return nil }, nil
}
