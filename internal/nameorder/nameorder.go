// Package nameorder orders names that contain numbers by value: CI-9 before CI-56, 6.1.0-9 before 6.1.0-56.
package nameorder

import "strings"

// Compare compares names byte by byte, and their runs of digits as numbers of any length. The result is that of
// cmp.Compare. Runs of digits that differ only in leading zeros are equal.
func Compare(a, b string) int {
	for a != "" && b != "" {
		na, nb := digits(a), digits(b)
		if na > 0 && nb > 0 {
			x, y := strings.TrimLeft(a[:na], "0"), strings.TrimLeft(b[:nb], "0")
			if d := len(x) - len(y); d != 0 {
				return d
			}
			if d := strings.Compare(x, y); d != 0 {
				return d
			}
			a, b = a[na:], b[nb:]
			continue
		}
		if a[0] != b[0] {
			return int(a[0]) - int(b[0])
		}
		a, b = a[1:], b[1:]
	}
	return len(a) - len(b)
}

// digits returns the number of digits that s begins with.
func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}
