package rvt

import "ciddk/ci"

// pathMTU returns the MTU that a Modify leaves the QP with.
func (q *QP) pathMTU(set ci.QPField, a *ci.QPAttr) ci.MTU {
	if set&ci.QPFieldMTU != 0 {
		return a.MTU
	}
	return q.attr.MTU
}
