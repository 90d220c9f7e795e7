//go:build !linux

package usersuite

import "ciddk/validate"

// asUser skips the case.
func asUser(t *validate.T, _ int, _ func()) { t.Skip("connections of several users need Linux") }
