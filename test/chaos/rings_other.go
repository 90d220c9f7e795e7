//go:build !linux

package chaos

// overwrittenRings needs memory that another process could write to.
func (w *world) overwrittenRings() error {
	w.tally.add("rounds without overwritten rings: not Linux", 1)
	return nil
}

// foreignMemory is Go's here.
func foreignMemory(n int) ([]byte, func() error, error) {
	return make([]byte, n), func() error { return nil }, nil
}
