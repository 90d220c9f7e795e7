package rvt

import "ciddk/ci"

// nothingForUser marks the private data of a verb that succeeded and has no result for the user library.
func nothingForUser(ub *ci.UserBuffer) {
	if ub != nil {
		ub.Status, ub.Out = 0, ub.Out[:0]
	}
}
