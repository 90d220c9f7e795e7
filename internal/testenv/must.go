package testenv

// Must returns v, and panics if err is not nil. Use it where an error means that the test itself is wrong.
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
