package prm

// IsUnion reports whether the fields of a layout may overlap.
func IsUnion(l *Layout) bool { return l.isUnion }
